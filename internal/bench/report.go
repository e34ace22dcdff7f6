package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// format is a way to print the report.
type format interface {
	heading(text string) string
	row(cells []string) string
	rule(columns int) string // between head and rows
}

// plainText prints for a terminal.
type plainText struct{}

func (plainText) heading(text string) string { return "\n" + text + "\n\n" }
func (plainText) rule(int) string            { return "" }
func (plainText) row(cells []string) string {
	var line strings.Builder
	fmt.Fprintf(&line, "  %-32s", cells[0])
	for _, c := range cells[1:] {
		fmt.Fprintf(&line, " %9s", c)
	}
	return line.String() + "\n"
}

// markdownText prints for docs/.
type markdownText struct{}

func (markdownText) heading(text string) string { return "\n## " + text + "\n\n" }
func (markdownText) rule(n int) string          { return "|---" + strings.Repeat("|---:", n-1) + "|\n" }
func (markdownText) row(cells []string) string {
	escaped := make([]string, len(cells))
	for i, c := range cells {
		escaped[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return "| " + strings.Join(escaped, " | ") + " |\n"
}

// report prints the tables and the promises.
func (b *bench) report(f format) []byte {
	var out bytes.Buffer
	for _, t := range b.tables {
		out.WriteString(f.heading(t.title))
		head := t.head()
		out.WriteString(f.row(head) + f.rule(len(head)))
		for _, c := range t.rows {
			out.WriteString(f.row(t.cells(c)))
		}
		if t.note != "" {
			fmt.Fprintf(&out, "\n%s\n", t.note)
		}
	}
	out.WriteString(f.heading("Promises"))
	for _, p := range b.promises {
		verdict := "kept  "
		if !p.kept {
			verdict = "BROKEN"
		}
		fmt.Fprintf(&out, "- %s  %s: %s\n", verdict, p.text, p.got)
	}
	return out.Bytes()
}

func (t *resultTable) head() []string {
	head := []string{"", "wall s", "CPU s"}
	if t.raw > 0 {
		head = append(head, "MB/s in")
	}
	if t.sized {
		head = append(head, "MB out", "of raw", "ratio")
	}
	return append(head, "RSS MiB", "runs")
}

func (t *resultTable) cells(c *contender) []string {
	s := c.median()
	cells := []string{c.name, decimal(s.wall), decimal(s.cpu)}
	if t.raw > 0 {
		cells = append(cells, fmt.Sprintf("%.0f", float64(t.raw)/1e6/max(s.wall.Seconds(), 1e-3)))
	}
	if t.sized {
		share := float64(s.size) / float64(t.raw)
		cells = append(cells, fmt.Sprintf("%.1f", float64(s.size)/1e6), fmt.Sprintf("%.3f", share), fmt.Sprintf("%.2f", 1/share))
	}
	rss := "-"
	if s.rss > 0 {
		rss = fmt.Sprintf("%.0f", float64(s.rss)/(1<<20))
	}
	return append(cells, rss, fmt.Sprint(len(c.samples)))
}

func decimal(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// markdown is the whole document.
func (b *bench) markdown() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, `# Benchmarks

Made by %s on %s. Do not edit: run it again.

- Machine: %s
- Data: a real MariaDB server filled by the project's own generator, seed 1. The sysbench kind is random digits in the
  tables of sysbench's oltp tests, the tpcc kind an order-entry business. The streams are what
  `+"`mariadb-backup --backup --stream=mbstream --parallel=2`"+` wrote after a clean restart of the server.
- Contenders read the stream from the page cache on standard input and write to a file on the same disk. They take
  turns; the median of the runs counts. What takes over 20 seconds runs once. CPU is user and system time of all
  processes. 1 MB is 10^6 bytes.
- mbwrap packs with `+"`mbwrap backup --stdin --to - --jobs 2`"+` and the options shown; it checks the whole stream in that
  time. Into a repository (`+"`--repo`"+`) it hashes what it stores, too.
- Programs: %s
`, "`make bench`", time.Now().UTC().Format(time.DateOnly), machine(), strings.Join(b.versions(), "; "))
	out.Write(b.report(markdownText{}))
	return out.Bytes()
}
