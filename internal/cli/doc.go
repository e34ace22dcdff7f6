// Package cli is mbwrap's command line: one file per command, and what they share, which is flags from arguments,
// environment and file (settings.go, arguments.go, settle.go), exit codes and hints (errors.go), and what is said on a
// terminal (console.go, output.go). It decides nothing about backups; it calls the rooms that do.
//
// A command is a constructor that returns a *command, listed in commands.go: its run function takes a context, an options
// struct and an *Env and knows nothing of the module that parses flags.
package cli
