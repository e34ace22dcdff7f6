// Package e2e tests the whole program on real parts: the mbwrap that is built from this tree, with libzstd and without,
// against a real server, the real mariadb-backup and the stock tools, on a real file system, with signals, full disks
// and dead processes. It holds tests only; nothing imports it. What one room can show alone is tested in that room.
package e2e
