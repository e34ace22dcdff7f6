package codec

import (
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	if got, want := Names(), []string{"zstd", "gzip", "lz4", "none"}; !slices.Equal(got, want) {
		t.Errorf("Names: got %q, want %q", got, want)
	}
	suffixes := map[string]string{"zstd": ".zst", "gzip": ".gz", "lz4": ".lz4", "none": ""}
	forEach(t, func(t *testing.T, c *Codec) {
		if got, want := c.Suffix(), suffixes[c.Name()]; got != want {
			t.Errorf("suffix: got %q, want %q", got, want)
		}
	})
	for _, name := range []string{"", "ZSTD", "zst", "xz"} {
		if c, err := Lookup(name); err == nil || !strings.Contains(err.Error(), "unknown codec") {
			t.Errorf("Lookup(%q): got %v, %v, want an error", name, c, err)
		}
	}
}

func TestLibrary(t *testing.T) {
	wants := map[string]string{"zstd": zstdLibraryWant, "gzip": "klauspost/compress", "lz4": "pierrec/lz4", "none": ""}
	forEach(t, func(t *testing.T, c *Codec) {
		if got, want := c.Library(), wants[c.Name()]; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q…", got, want)
		}
	})
}

func TestDetect(t *testing.T) {
	for _, row := range []struct {
		name, head, want string
	}{
		{"zstd", "\x28\xB5\x2F\xFD\x04\x00", "zstd"},
		{"zstd, four bytes", "\x28\xB5\x2F\xFD", "zstd"},
		{"pzstd", "\x50\x2A\x4D\x18\x04\x00\x00\x00", "zstd"},
		{"skippable 15", "\x5F\x2A\x4D\x18\x04\x00\x00\x00", "zstd"},
		{"gzip", "\x1F\x8B\x08\x00\x00\x00\x00\x00", "gzip"},
		{"lz4", "\x04\x22\x4D\x18\x64\x40\xA7", "lz4"},
		{"xbstream", "XBSTCK01", "none"},
		{"empty", "", ""},
		{"cut zstd", "\x28\xB5\x2F", ""},
		{"cut xbstream", "XBSTCK0", ""},
		{"legacy zstd", "\x27\xB5\x2F\xFD\x04\x00\x00\x00", ""},
		{"legacy lz4", "\x02\x21\x4C\x18\x04\x00\x00\x00", ""},
		{"gzip, method 7", "\x1F\x8B\x07\x00\x00\x00\x00\x00", ""},
		{"not skippable", "\x60\x2A\x4D\x18\x04\x00\x00\x00", ""},
		{"text", "-- MariaDB dump", ""},
	} {
		got := ""
		c, ok := Detect([]byte(row.head))
		if ok {
			got = c.Name()
		}
		if got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}

func TestDetectOwn(t *testing.T) {
	forEach(t, func(t *testing.T, c *Codec) {
		frame := compress(t, c, 0, []byte("XBSTCK01 and more"))
		if got, ok := Detect(frame[:DetectLen]); !ok || got != c {
			t.Errorf("got %v, %v, want %s", got, ok, c.Name())
		}
	})
}

func TestParseLevel(t *testing.T) {
	for _, row := range []struct {
		codec, level string
		want         int
		err          string
	}{
		{"zstd", "auto", 1, ""},
		{"zstd", "", 1, ""},
		{"zstd", "1", 1, ""},
		{"zstd", "19", 19, ""},
		{"zstd", "20", 0, "level 20 is outside of 1 to 19"},
		{"zstd", "0", 0, "level 0 is outside of 1 to 19"},
		{"zstd", "-1", 0, "outside"},
		{"zstd", "fast", 0, `level "fast" is neither a number nor auto`},
		{"gzip", "auto", 1, ""},
		{"gzip", "9", 9, ""},
		{"gzip", "10", 0, "outside of 1 to 9"},
		{"lz4", "auto", 1, ""},
		{"lz4", "9", 9, ""},
		{"lz4", "10", 0, "outside of 1 to 9"},
		{"none", "auto", 0, ""},
		{"none", "", 0, ""},
		{"none", "1", 0, "has no levels"},
	} {
		got, err := lookup(t, row.codec).ParseLevel(row.level)
		if got != row.want || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s %q: got %d, %v, want %d, %q", row.codec, row.level, got, err, row.want, row.err)
		}
	}
}

func TestNewCompressorRefuses(t *testing.T) {
	for _, row := range []struct {
		name, codec string
		options     CompressorOptions
	}{
		{"zstd level too high", "zstd", CompressorOptions{Level: 20}},
		{"zstd level too low", "zstd", CompressorOptions{Level: -1}},
		{"gzip level too high", "gzip", CompressorOptions{Level: 10}},
		{"lz4 level too high", "lz4", CompressorOptions{Level: 10}},
		{"none has no levels", "none", CompressorOptions{Level: 1}},
		{"gzip has no parameters", "gzip", CompressorOptions{Params: &Params{Level: 3}}},
		{"none has no parameters", "none", CompressorOptions{Params: &Params{}}},
	} {
		if _, err := lookup(t, row.codec).NewCompressor(row.options); err == nil {
			t.Errorf("%s: got no error", row.name)
		}
	}
}
