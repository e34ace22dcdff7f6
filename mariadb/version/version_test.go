package version_test

import (
	"testing"

	"github.com/mbwrap/mbwrap/mariadb/version"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want version.Number
	}{
		{"10.11.19-MariaDB-0+deb12u1-log", version.Number{Major: 10, Minor: 11, Patch: 19}},
		{"5.5.5-10.6.12-MariaDB", version.Number{Major: 10, Minor: 6, Patch: 12}},
		{"mariadb-backup based on MariaDB server 11.8.9-MariaDB debian-linux-gnu (x86_64)", version.Number{Major: 11, Minor: 8, Patch: 9}},
		{"nothing", version.Number{}}, {"1.2", version.Number{}},
	} {
		if got := version.Parse(tt.text); got != tt.want {
			t.Errorf("Parse(%q): got %v, want %v", tt.text, got, tt.want)
		}
	}
	a, b, c := version.Number{Major: 10, Minor: 6, Patch: 20}, version.Number{Major: 10, Minor: 11, Patch: 2}, version.Number{Major: 10, Minor: 11, Patch: 3}
	if a.Compare(b) >= 0 || b.Compare(c) >= 0 || c.Compare(c) != 0 || b.CompareSeries(c) != 0 || c.CompareSeries(a) <= 0 {
		t.Error("versions are not in order")
	}
	if got := (version.Number{}).String(); got != "unknown" {
		t.Errorf("got %q, want unknown", got)
	}
}

func TestReadsRedoOf(t *testing.T) {
	for _, tt := range []struct {
		tool, made string
		want       bool
	}{
		{"10.11.19", "10.8.0", true}, {"10.11.19", "10.7.8", false}, {"10.8.0", "10.5.3", false}, {"10.6.1", "10.6.1", true}, {"11.8.9", "10.11.19", true},
	} {
		if got := version.Parse(tt.tool).ReadsRedoOf(version.Parse(tt.made)); got != tt.want {
			t.Errorf("tool %s, server %s: got %v, want %v", tt.tool, tt.made, got, tt.want)
		}
	}
}
