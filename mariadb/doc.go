// Package mariadb runs mariadb-backup: it finds it, runs it as a source of bytes whose end cannot be mistaken for success
// ([StartBackup], [Process]), prepares a restored directory ([Prepare]), and reads what it leaves in the stream
// ([Metadata], [Position]). It alone knows the tool's options and messages and what they mean.
//
// Below it stand the parts that deal with servers: package server looks at a running one, package scratch starts
// throwaway ones, package version compares versions. Together they are the only ones that start MariaDB programs or speak to a
// server. None of them knows where the bytes go, and none prints. No secret given to them reaches an argument list, a
// log or an error.
package mariadb
