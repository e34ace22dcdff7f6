package progress

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// refresh is how often the bar is drawn: quick enough to look alive, slow enough for a remote terminal.
const refresh = 250 * time.Millisecond

// wipe goes to the start of the line and clears it: a ^C that the terminal echoed stands there.
const wipe = "\r\x1b[K"

// bar is the view for people. The module draws, moves the cursor and lets lines through above; what stands in the line
// is ours, because it has to fit any width.
type bar struct {
	r         *Reporter
	container *mpb.Progress
	bar       *mpb.Bar
	terminal  bool
}

func newBar(r *Reporter, terminal bool) *bar {
	v := &bar{r: r, terminal: terminal}
	options := []mpb.ContainerOption{mpb.WithOutput(r.out), mpb.WithRefreshRate(refresh), mpb.WithAutoRefresh()}
	if terminal {
		options = append(options, mpb.ForceTTY())
	}
	v.container = mpb.New(options...)
	// The total of the module stays unknown: it would end the bar when an estimate was too small.
	v.bar, _ = v.container.Add(0, mpb.BarFillerFunc(v.fill), mpb.BarFillerTrim())
	return v
}

// fill draws the line. The module calls it from a goroutine of its own, for which log may be waiting with Reporter.mu
// held: that lock must not be taken here.
func (v *bar) fill(w io.Writer, stat decor.Statistics) error {
	text := layout(v.r.snap(), stat.AvailableWidth-1) // the last column stays free: some terminals wrap there
	if v.terminal {
		text = "\r" + text
	}
	_, err := io.WriteString(w, text)
	return err
}

func (v *bar) phaseChanged() {}

// log hands lines to the module, which writes them above the bar at its next refresh. Once the module has given up,
// because the terminal is gone, they go out directly.
func (v *bar) log(p []byte) error {
	text := bytes.Clone(p)
	if v.terminal {
		text = append([]byte(wipe), text...)
	}
	if _, err := v.container.Write(text); err == nil {
		return nil
	}
	return silent{v.r}.log(p)
}

func (v *bar) stop() {
	v.bar.Abort(true)
	v.container.Wait()
	if v.terminal {
		_, _ = io.WriteString(v.r.out, wipe)
	}
}

// part is a piece of the line; of two pieces that don't both fit, the one with the higher rank goes first.
type part struct {
	text string
	rank int
}

// The narrowest and the widest gauge worth drawing, with its brackets.
const gaugeMin, gaugeMax = 12, 42

// layout writes s in at most width columns, leaving out what matters least.
func layout(s snapshot, width int) string {
	parts := pieces(s)
	for len(parts) > 1 && length(parts) > width {
		drop := 0
		for i, p := range parts {
			if p.rank > parts[drop].rank {
				drop = i
			}
		}
		parts = append(parts[:drop], parts[drop+1:]...)
	}
	texts := make([]string, 0, len(parts)+1)
	for _, p := range parts {
		texts = append(texts, p.text)
	}
	if room := width - length(parts) - 2; s.total > 0 && room >= gaugeMin && len(texts) > 1 {
		texts = append(texts[:2], append([]string{gauge(s, min(room, gaugeMax))}, texts[2:]...)...)
	}
	return clip(strings.Join(texts, "  "), width)
}

// pieces lists what there is to say, in the order it is shown.
func pieces(s snapshot) []part {
	parts := []part{{s.label, 0}}
	amount := Size(s.raw)
	if s.total > 0 {
		parts = append(parts, part{fmt.Sprintf("%3d%%", percent(s)), 1})
		amount += " of " + Size(s.total)
	}
	parts = append(parts, part{amount, 3})
	if s.in >= 1 {
		parts = append(parts, part{speed(s.in), 2})
	}
	if s.stored > 0 && s.raw > 0 {
		parts = append(parts, part{"stored " + Size(s.stored) + " at " + speed(s.out), 6}, part{Ratio(s.raw, s.stored), 5})
	}
	if s.left >= 0 {
		return append(parts, part{"left " + clock(s.left), 4})
	}
	return append(parts, part{clock(s.elapsed), 4})
}

// length is the width of the parts with their gaps.
func length(parts []part) int {
	n := -2
	for _, p := range parts {
		n += utf8.RuneCountInString(p.text) + 2
	}
	return n
}

// percent is 100 only when the count is exact: an estimate that was too small must not look like an end.
func percent(s snapshot) int64 {
	switch {
	case s.raw == s.total:
		return 100
	case s.raw > s.total:
		return 99
	}
	return min(99, int64(100*float64(s.raw)/float64(s.total)))
}

// gauge draws the share done in width columns.
func gauge(s snapshot, width int) string {
	inner := width - 2
	full := min(inner, int(percent(s))*inner/100)
	body := strings.Repeat("=", full)
	if full < inner {
		body += ">" + strings.Repeat(" ", inner-full-1)
	}
	return "[" + body + "]"
}

// clock writes d as a running clock: 0:07, 12:34, 3:04:05.
func clock(d time.Duration) string {
	n := int64(d / time.Second)
	if n < 3600 {
		return fmt.Sprintf("%d:%02d", n/60, n%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
}

// clip cuts s to width columns.
func clip(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if runes := []rune(s); len(runes) > width {
		return string(runes[:width])
	}
	return s
}
