package progress

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestLayout(t *testing.T) {
	running := snapshot{label: "copy", raw: 1.2e9, stored: 350e6, total: 2.8e9, in: 410e6, out: 120e6,
		left: 4 * time.Second, elapsed: 3 * time.Second}
	unknown := snapshot{label: "copy", raw: 1.2e9, in: 410e6, left: -1, elapsed: 75 * time.Second}
	starting := snapshot{label: "backup", total: 2.8e9, left: -1}
	tests := []struct {
		name  string
		s     snapshot
		width int
		want  string
	}{
		{"wide", running, 120, "copy   42%  [=============>                   ]  1.2 GB of 2.8 GB  410 MB/s  stored 350 MB at 120 MB/s  3.43x  left 0:04"},
		{"usual", running, 79, "copy   42%  [=======>           ]  1.2 GB of 2.8 GB  410 MB/s  3.43x  left 0:04"},
		{"narrow", running, 40, "copy   42%  1.2 GB of 2.8 GB  410 MB/s"},
		{"very narrow", running, 20, "copy   42%  410 MB/s"},
		{"tiny", running, 11, "copy   42%"},
		{"less", running, 3, "cop"},
		{"nothing", running, 0, ""},
		{"unknown width", running, -1, ""},
		{"total unknown", unknown, 79, "copy  1.2 GB  410 MB/s  1:15"},
		{"start", starting, 60, "backup    0%  [>                      ]  0 B of 2.8 GB  0:00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := layout(tt.s, tt.width)
			if got != tt.want {
				t.Errorf("got  %q,\nwant %q", got, tt.want)
			}
			if n := utf8.RuneCountInString(got); n > max(tt.width, 0) {
				t.Errorf("got %d columns, want at most %d", n, tt.width)
			}
		})
	}
}

func TestLayoutFitsEveryWidth(t *testing.T) {
	s := snapshot{label: "prüfen", raw: 99.9e12, stored: 9e12, total: 100e12, in: 1e9, out: 1e8, left: 100 * time.Hour}
	for width := range 200 {
		if got := layout(s, width); utf8.RuneCountInString(got) > width || !utf8.ValidString(got) {
			t.Errorf("width %d: got %q", width, got)
		}
	}
}

func TestGauge(t *testing.T) {
	tests := []struct {
		raw  int64
		want string
	}{{0, "[>         ]"}, {50, "[=====>    ]"}, {99, "[=========>]"}, {100, "[==========]"}, {300, "[=========>]"}}
	for _, tt := range tests {
		if got := gauge(snapshot{raw: tt.raw, total: 100}, 12); got != tt.want {
			t.Errorf("at %d of 100: got %q, want %q", tt.raw, got, tt.want)
		}
	}
}

func TestBarDrawsAndWipes(t *testing.T) {
	var out buffer
	r := New(Options{Mode: Bar, Out: &out, IsTerminal: true, Total: 100, Title: "backup"})
	r.AddRaw(50)
	_, _ = r.Writer().Write([]byte("warning: slow\n"))
	r.Done()
	_, _ = r.Writer().Write([]byte("after\n"))
	got := out.String()
	for _, want := range []string{"backup", "50%", "warning: slow\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if tail := "\x1b[J" + wipe + "after\n"; !strings.HasSuffix(got, tail) {
		t.Errorf("got the end %q, want %q: bar cleared, then plain lines", got[max(0, len(got)-40):], tail)
	}
}

func TestBarForcedWithoutTerminal(t *testing.T) {
	var out buffer
	r := New(Options{Mode: Bar, Out: &out, Total: 100, Title: "backup"})
	r.AddRaw(100)
	r.Done()
	got := out.String()
	if !strings.Contains(got, "100%") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q, want a bar without control sequences", got)
	}
}

func TestHuman(t *testing.T) {
	tests := []struct{ name, got, want string }{
		{"zero", Size(0), "0 B"},
		{"bytes", Size(999), "999 B"},
		{"kilo", Size(1000), "1.0 kB"},
		{"giga", Size(1_400_000_000), "1.4 GB"},
		{"two digits", Size(12_340_000), "12.3 MB"},
		{"three digits", Size(123_400_000), "123 MB"},
		{"below a unit", Size(999_499), "999 kB"},
		{"rounds into the next unit", Size(999_500), "1.0 MB"},
		{"rounds to three digits", Size(99_960_000), "100 MB"},
		{"exa", Size(1 << 62), "4.6 EB"},
		{"negative", Size(-1500), "-1.5 kB"},
		{"least", Size(-1 << 63), "-9.2 EB"},
		{"rate", Rate(410_000_000, 2*time.Second), "205 MB/s"},
		{"rate of nothing", Rate(0, time.Second), "0 B/s"},
		{"rate in no time", Rate(5, 0), "-"},
		{"endless rate", Rate(1<<62, time.Nanosecond), "4.6 EB/s"},
		{"ratio", Ratio(343, 100), "3.43x"},
		{"large ratio", Ratio(12345, 1000), "12.3x"},
		{"huge ratio", Ratio(123456, 1000), "123x"},
		{"no ratio", Ratio(1, 0), "-"},
		{"no time", Duration(0), "0 ms"},
		{"milliseconds", Duration(340 * time.Millisecond), "340 ms"},
		{"seconds", Duration(12345 * time.Millisecond), "12.3 s"},
		{"rounds to a minute", Duration(59960 * time.Millisecond), "1m00s"},
		{"minutes", Duration(4*time.Minute + 5*time.Second), "4m05s"},
		{"rounds to an hour", Duration(time.Hour - time.Millisecond), "1h00m"},
		{"hours", Duration(2*time.Hour + 3*time.Minute), "2h03m"},
		{"rounds to a day", Duration(24*time.Hour - time.Second), "1d00h"},
		{"days", Duration(76 * time.Hour), "3d04h"},
		{"negative time", Duration(-time.Second), "-1.0 s"},
		{"clock", clock(7 * time.Second), "0:07"},
		{"clock with hours", clock(3*time.Hour + 4*time.Minute + 5*time.Second), "3:04:05"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}
