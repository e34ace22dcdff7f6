// Package innodb checks the pages of InnoDB's files as they go by in a backup stream: which checksum rule a file
// follows, and whether each page keeps it. It needs no server, no key and no second look at the data.
//
// The page size and the rule are decided per file, from the flags in its page 0: a server that was upgraded has files of
// all kinds. Where page 0 is damaged, not written yet or not there, the first page that shows a layout by a right CRC-32C
// decides, and what came before stays unchecked.
//
// The rules, in the server's words: full_crc32, also of page_compressed and encrypted pages, whose sum covers what is
// stored; crc32 and strict_crc32, with the sum of the ciphertext for encrypted pages; ROW_FORMAT=COMPRESSED; and, unless
// Options.Strict, the sums of innodb and none that old servers left behind. A page of zeros was never used and is right. A
// page must have the number of its place, but in the system tablespace, whose files follow each other and whose doublewrite
// buffer holds copies of other pages.
//
// Some pages have no sum of what is stored: page_compressed in files older than full_crc32, and what MySQL compresses or
// encrypts. Their fixed fields are looked at and they count as unchecked. The first duty is never to report a page that is
// right.
//
// Files of the system tablespace are known by their usual name, ibdata and a number. Under other names in
// innodb_data_file_path they are passed over.
package innodb
