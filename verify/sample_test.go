package verify

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/pipeline"
)

func TestChoose(t *testing.T) {
	tests := []struct {
		name     string
		n        int64
		fraction float64
		least    int64
		most     int64
	}{
		{"one block", 1, 0.001, 1, 1},
		{"two blocks", 2, 0.001, 2, 2},
		{"little of many", 1000, 0.0001, 2, 3},
		{"a tenth", 1000, 0.1, 100, 102},
		{"nearly all", 1000, 0.999, 999, 1000},
		{"a border of words", 64, 0.5, 32, 34},
	}
	for _, tt := range tests {
		for seed := range uint64(50) {
			c := choose(tt.n, tt.fraction, seed)
			count := int64(0)
			for i := range tt.n {
				if c.has(i) {
					count++
				}
			}
			if count < tt.least || count > tt.most || !c.has(0) || !c.has(tt.n-1) {
				t.Errorf("%s, seed %d: got %d blocks, want %d to %d with the first and the last", tt.name, seed, count, tt.least, tt.most)
			}
		}
	}
	if a, b := choose(1000, 0.1, 7), choose(1000, 0.1, 7); !slices.Equal(a.bits, b.bits) {
		t.Error("got other blocks with the same seed")
	}
	if a, b := choose(1000, 0.1, 7), choose(1000, 0.1, 8); slices.Equal(a.bits, b.bits) {
		t.Error("got the same blocks with another seed")
	}
}

// TestSample: what is read is checked, what isn't is told.
func TestSample(t *testing.T) {
	raw := wholeStream(t, file{"db/t.MYD", letters(400_000)}, file{"db/u.MYD", letters(400_000)})
	for _, level := range []Level{Hash, Read, Pages} {
		t.Run(string(level), func(t *testing.T) {
			_, dir, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 100_000})
			index, err := b.Index(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			blocks := slices.Collect(index.AllBlocks())
			const seed = 5
			set := choose(int64(len(blocks)), 0.1, seed)
			o := Options{Level: level, Sample: 0.1, Seed: seed}
			var total int64
			o.OnTotal = func(n int64) { total = n }
			o.Meter = new(pipeline.Meter)
			good, err := Run(t.Context(), b, o)
			if err != nil {
				t.Fatal(err)
			}
			s := good.Sample
			if !good.OK || good.Restorable != RestorableUnknown || s.Seed != seed || s.Fraction != 0.1 {
				t.Errorf("got %v, %s, %+v", good.Problems, good.Restorable, s)
			}
			if s.OfBlocks != int64(len(blocks)) || s.OfRawBytes != int64(len(raw)) || s.OfStoredBytes != b.Manifest.StoredBytes {
				t.Errorf("got %+v of %d blocks, %d and %d bytes", s, len(blocks), len(raw), b.Manifest.StoredBytes)
			}
			if s.Blocks < 20 || s.Blocks > 22 || s.RawBytes != good.RawBytes || s.StoredBytes >= s.OfStoredBytes/5 || good.Objects != 2 {
				t.Errorf("got %+v, %d bytes decoded, %d objects", s, good.RawBytes, good.Objects)
			}
			if level == Hash && o.Meter.Stored.Load() != total || level != Hash && o.Meter.Raw.Load() != total {
				t.Errorf("got %d and %d bytes on the meter, %d told", o.Meter.Stored.Load(), o.Meter.Raw.Load(), total)
			}
			var text strings.Builder
			if err := good.Text(&text); err != nil || strings.Contains(text.String(), "good") || !strings.Contains(text.String(), "NOT read: ") {
				t.Errorf("got text %q, want that it says what was not read", text.String())
			}
			if v := good.Verification(); v.Sample != 0.1 {
				t.Errorf("got record %+v", v)
			}
			for number, block := range blocks {
				if number%9 != 0 && !set.has(int64(number)) {
					continue
				}
				path := filepath.Join(dir, b.Manifest.Volumes[block.Volume-1].Name)
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				data[block.Stored+block.StoredSize/2] ^= 1
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				report, err := Run(t.Context(), b, o)
				if err != nil {
					t.Fatal(err)
				}
				if report.OK == set.has(int64(number)) {
					t.Errorf("block %d, chosen: %v: got %v", number, set.has(int64(number)), report.Problems)
				}
				if !report.OK && (report.Problems[0].Block != int64(number) || !report.LostMore || report.LostFiles == 0) {
					t.Errorf("block %d: got %+v", number, report.Problems[0])
				}
				data[block.Stored+block.StoredSize/2] ^= 1
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSampleSeesSizes: a volume that is cut or missing is seen even where no block of it is read.
func TestSampleSeesSizes(t *testing.T) {
	raw := wholeStream(t, file{"db/t.MYD", letters(400_000)})
	for _, level := range []Level{Hash, Read} {
		_, dir, b := backup(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 20_000})
		path := filepath.Join(dir, "data.0003.xbs.zst")
		if err := os.Truncate(path, 10_000); err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), b, Options{Level: level, Sample: 0.0001})
		if err != nil || len(find(report, "data.0003.xbs.zst")) == 0 {
			t.Errorf("%s: got %v, %v", level, err, report.Problems)
		}
	}
}

// TestSampleOfAnotherKindEachTime: without a seed another part is read each time.
func TestSampleOfAnotherKindEachTime(t *testing.T) {
	_, _, b := backup(t, wholeStream(t, file{"db/t.MYD", letters(50_000)}), made{codec: "none", blockSize: 4096})
	seeds := map[uint64]bool{}
	for range 4 {
		report, err := Run(t.Context(), b, Options{Sample: 0.2})
		if err != nil {
			t.Fatal(err)
		}
		seeds[report.Sample.Seed] = true
	}
	if len(seeds) != 4 {
		t.Errorf("got seeds %v, want four", seeds)
	}
}

func TestOptionsThatCantBe(t *testing.T) {
	_, _, b := small(t, "none")
	for name, o := range map[string]Options{
		"negative sample":   {Sample: -1},
		"no number":         {Sample: math.NaN()},
		"sample of a trial": {Level: Restore, Sample: 0.5, Trial: TrialOptions{Dir: "/x"}},
		"trial nowhere":     {Level: Restore},
		"negative drift":    {Level: Restore, Trial: TrialOptions{Dir: "/x", Drift: -1}},
		"unknown check":     {Level: Restore, Trial: TrialOptions{Dir: "/x", Check: "deep"}},
		"no level":          {Level: "deep"},
	} {
		if report, err := Run(t.Context(), b, o); err == nil {
			t.Errorf("%s: got %+v, want an error", name, report)
		}
	}
	if report, err := Run(t.Context(), b, Options{Sample: 1}); err != nil || report.Sample != nil || !report.OK {
		t.Errorf("sample of all: got %v, %+v", err, report)
	}
}
