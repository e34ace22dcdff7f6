package codec

import "github.com/pierrec/lz4/v4"

// This file is the one place where levels get their meaning. The index into each table is the level minus one.

// What "auto" stands for. zstd 1 is the fastest level that still codes literals and, on pages full of digits, smaller
// than every level up to 6.
const (
	zstdAuto = 1
	gzipAuto = 1
	lz4Auto  = 1
)

// Literals says how zstd codes the bytes that no match covers.
type Literals int

// Values of [Literals]. LiteralsAuto leaves them raw at negative levels, which is bad for digits and text.
const (
	LiteralsAuto       Literals = 0
	LiteralsCompressed Literals = 1
	LiteralsRaw        Literals = 2
)

// Params are zstd's compression parameters, as in libzstd's ZSTD_cParameter. A zero field means what Level implies for
// a block of that size; Level 0 is zstd's own default, 3. The pure Go implementation knows only Level and takes the
// nearest of its four speeds; the frames are valid either way.
type Params struct {
	Level        int // -131072 to 22; negative levels are the fastest
	WindowLog    int // log2 of the farthest match
	HashLog      int // log2 of the entries of the first match table
	ChainLog     int // log2 of the entries of the second, for strategies that have one
	SearchLog    int // log2 of the number of attempts
	MinMatch     int // shortest match looked for, 3 to 7
	TargetLength int // strategies 1 and 2: acceleration; 7 to 9: good enough length
	Strategy     int // 1 fast, 2 dfast, 3 greedy, 4 lazy, 5 lazy2, 6 btlazy2, 7 btopt, 8 btultra, 9 btultra2
	Literals     Literals
}

// zstdLevels are libzstd's own levels.
var zstdLevels = [19]Params{
	{Level: 1}, {Level: 2}, {Level: 3}, {Level: 4}, {Level: 5}, {Level: 6}, {Level: 7}, {Level: 8}, {Level: 9}, {Level: 10},
	{Level: 11}, {Level: 12}, {Level: 13}, {Level: 14}, {Level: 15}, {Level: 16}, {Level: 17}, {Level: 18}, {Level: 19},
}

// gzipLevels are levels of klauspost/compress, for blocks that are mostly digits and for all others, chosen by
// measurement: every level takes at most two thirds of the time of pigz at that level, and the first is no larger than
// `gzip -1`. On digits the library's 4 to 8 are slower and larger than its 3, and its 9 gains one percent for six times
// the work; on business rows its 1 and 2 gain nothing over its 3 but some time, and its 4 pays only where much repeats:
// dense is for blocks of that kind, which would make the first level larger than `gzip -1`.
var gzipLevels = [9]struct{ digits, other, dense int }{
	{2, 3, 4}, {2, 3, 4}, {3, 5, 5}, {3, 5, 5}, {3, 6, 6}, {3, 7, 7}, {3, 8, 8}, {3, 8, 8}, {3, 9, 9},
}

// lz4Levels are levels of pierrec/lz4. The first gives what `lz4 -1` does; from the third on they search ever longer,
// for little.
var lz4Levels = [9]lz4.CompressionLevel{
	lz4.CCompatFast, lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level7, lz4.Level9,
}
