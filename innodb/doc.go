// Package innodb checks the pages of InnoDB's files as they go by in a backup stream: which checksum rule a file
// follows, and whether each page keeps it. It needs no server, no key and no second look at the data.
package innodb
