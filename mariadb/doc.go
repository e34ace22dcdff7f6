// Package mariadb knows the two outside programs a backup depends on: mariadb-backup and the MariaDB server.
//
// It has three parts. The tool: finding it, running it as a source of bytes whose end cannot be mistaken for success
// ([StartBackup], [Process]), preparing a restored directory ([Prepare]), and reading what it leaves in the stream
// ([Metadata]). The server: what is true of it and whether a backup of it can succeed from here ([Connect],
// [Server.Facts], [Check]). And a throwaway server for tests, demonstrations and restore checks ([Scratch]).
//
// It is the only package that starts MariaDB programs or speaks to a server. It does not know where the bytes go, and
// it prints nothing. No secret given to it reaches an argument list, a log or an error.
package mariadb
