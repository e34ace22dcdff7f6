package verify

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mbwrap/mbwrap/catalog"
)

// maxShown is how many problems, lost files and lost tables Text shows; the Report has more.
const maxShown = 20

// Text writes the report for people: the verdict first, then what was looked at and, for damage, where it is, what it hits
// and what can still be done.
func (r *Report) Text(w io.Writer) error {
	t := &text{w: w}
	t.line("%s: %s", r.ID, r.verdict())
	t.line("  checked: %s, in %s", r.extent(), r.Duration.Round(time.Millisecond))
	if s := r.Sample; s != nil {
		t.line("  NOT read: %d of %d blocks (%s of %s). Nothing is known of them. (sample %.3g %%, seed %d)",
			s.OfBlocks-s.Blocks, s.OfBlocks, size(s.OfStoredBytes-s.StoredBytes), size(s.OfStoredBytes), 100*s.Fraction, s.Seed)
	}
	if p := r.Pages; p != nil && p.NotChecked > 0 {
		t.line("  files without a page that could be judged: %d", p.NotChecked)
	}
	r.textTrial(t)
	if !r.OK {
		r.textDamage(t)
	}
	return t.err
}

// text writes lines until one can't be written.
type text struct {
	w   io.Writer
	err error
}

// line writes a line. Names in it may come from a backup: what is not printable is escaped.
func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = io.WriteString(t.w, printable(fmt.Sprintf(format, args...))+"\n")
	}
}

// printable escapes what could do things to a terminal.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// size writes a number of bytes with the largest decimal unit that fits.
func size(n int64) string {
	value, unit := float64(n), 0
	for ; value >= 999.95 && unit < 6; unit++ {
		value /= 1000
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %cB", value, "kMGTPE"[unit-1])
}

// verdict is the report in a few words.
func (r *Report) verdict() string {
	switch {
	case !r.OK && r.ProblemCount == 1:
		return "DAMAGED, 1 problem"
	case !r.OK:
		return fmt.Sprintf("DAMAGED, %d problems", r.ProblemCount)
	case r.Sample != nil:
		return "nothing wrong in what was read, which is a part"
	case r.Level == Hash:
		return "good: every stored byte is as it was written"
	case r.Level == Read:
		return "good: whole, and every checksum fits"
	case r.Level == Pages:
		return "good: whole, and every checksum fits, those of InnoDB's pages too"
	}
	return "good: it was restored, and a server is content with its tables"
}

// extent tells what was looked at.
func (r *Report) extent() string {
	parts := []string{fmt.Sprintf("%d objects (%s) against their SHA-256", r.Objects, size(r.StoredBytes))}
	if r.RawBytes > 0 {
		parts = append(parts, fmt.Sprintf("%s of stream", size(r.RawBytes)))
	}
	if r.Files > 0 {
		parts = append(parts, fmt.Sprintf("%d files", r.Files))
	}
	if p := r.Pages; p != nil {
		parts = append(parts, fmt.Sprintf("%d pages of InnoDB, %d of them empty, %d without a checksum", p.Pages, p.Empty, p.Unchecked))
	}
	return strings.Join(parts, ", ")
}

func (r *Report) textTrial(t *text) {
	trial := r.Trial
	if trial == nil {
		return
	}
	if trial.Skipped != "" {
		t.line("  restore: not tried: %s", trial.Skipped)
		return
	}
	if trial.ServerVersion != "" {
		t.line("  restore: MariaDB %s checked %d of %d tables (%s) in %s", trial.ServerVersion, trial.Checked, trial.Tables,
			trial.CheckMode, seconds(trial.Check))
	}
	if trial.NotCheckedCount > 0 {
		t.line("  tables not checked: %d", trial.NotCheckedCount)
		t.list(trial.NotChecked, trial.NotCheckedCount)
	}
	if trial.Compared > 0 {
		t.line("  rows compared with the baseline: %d tables", trial.Compared)
	}
	if trial.Statements > 0 {
		t.line("  statements run: %d", trial.Statements)
	}
	if trial.RTO > 0 {
		t.line("  a restore takes about %s until a server answers (%s)", seconds(trial.RTO), trial.RTOHow)
	}
	t.line("  space: %s promised, %s used at most", size(trial.SpaceNeeded), size(trial.SpaceUsed))
	for _, n := range trial.Notes[:min(len(trial.Notes), maxShown)] {
		t.line("  note: %s", n)
	}
	if trial.Kept {
		t.line("  the restored files are kept in %s", trial.Dir)
	}
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// list writes the first of count entries.
func (t *text) list(entries []string, count int) {
	shown := entries[:min(len(entries), maxShown)]
	for _, e := range shown {
		t.line("    %s", e)
	}
	if more := count - len(shown); more > 0 {
		t.line("    and %d more", more)
	}
}

// textDamage tells what is wrong, what it hits, and what to do.
func (r *Report) textDamage(t *text) {
	t.line("  what is wrong:")
	for _, p := range r.Problems[:min(len(r.Problems), maxShown)] {
		p.text(t)
	}
	if more := r.ProblemCount - int64(min(len(r.Problems), maxShown)); more > 0 {
		t.line("    and %d more problems", more)
	}
	if r.LostFiles > 0 {
		t.line("  files that can't be restored in full: %d (%s)", r.LostFiles, size(r.LostBytes))
		var lost []string
		for _, f := range r.Lost[:min(len(r.Lost), maxShown)] {
			lost = append(lost, fmt.Sprintf("%s (%s, %s)", f.Path, size(f.Size), f.Why))
		}
		t.list(lost, int(r.LostFiles))
	}
	if r.LostTableCount > 0 {
		t.line("  tables that are hit: %d", r.LostTableCount)
		t.list(r.LostTables, int(r.LostTableCount))
	}
	if r.IntactFiles > 0 {
		t.line("  intact: %d files (%s)", r.IntactFiles, size(r.IntactBytes))
	}
	for _, line := range r.advice() {
		t.line("  %s", line)
	}
}

// text writes a problem with all its places.
func (p *Problem) text(t *text) {
	t.line("    %s: %s", p.where(), p.Message)
	var at []string
	if p.Block >= 0 {
		at = append(at, fmt.Sprintf("block %d", p.Block))
	}
	if p.StoredOffset >= 0 {
		at = append(at, fmt.Sprintf("stored offset %d", p.StoredOffset))
	}
	if p.RawOffset >= 0 {
		at = append(at, fmt.Sprintf("raw offset %d", p.RawOffset))
	}
	if len(at) > 0 {
		t.line("      at %s", strings.Join(at, ", "))
	}
	if p.FileCount > 0 {
		t.line("      hits %s", list(p.Files, p.FileCount, "files"))
	}
	if len(p.Tables) > 0 {
		t.line("      tables %s", strings.Join(p.Tables, ", "))
	}
}

// advice tells what can still be restored, and how.
func (r *Report) advice() []string {
	salvage := fmt.Sprintf("mbwrap restore %s --salvage --target-dir DIR", r.ID)
	more := ""
	if r.LostMore {
		more = " What lies behind the damage could not be followed: more may be lost."
	}
	switch r.Restorable {
	case RestorableAll:
		if r.Trial != nil && r.Trial.Skipped == "" {
			return []string{"what can still be restored: every file is as it was stored, but a restored server is not as it should be"}
		}
		return []string{"what can still be restored: all of it. Every file in it is intact.", "  mbwrap restore " + r.ID + " --target-dir DIR"}
	case RestorableTables:
		return []string{"what can still be restored: a server with everything but the tables named here." + more, "  " + salvage}
	case RestorableFiles:
		return []string{"what can still be restored: files only. What makes a server of them is lost, " +
			"so that they can't be prepared." + more, "  " + salvage}
	case RestorableNothing:
		return []string{"what can still be restored: nothing of this backup. Take another one: mbwrap list"}
	}
	if r.Sample != nil {
		return []string{"what can still be restored: unknown, as only a part was read. Read all of it:", "  mbwrap verify " + r.ID + " --level read"}
	}
	return []string{"what can still be restored: unknown until it is decoded. Find out:", "  mbwrap verify " + r.ID + " --level read"}
}

// maxRecorded is how many problems are kept beside the backup.
const maxRecorded = 20

// Verification returns what is to be recorded beside the backup. Time, host and version are the caller's to fill in.
func (r *Report) Verification() *catalog.Verification {
	v := &catalog.Verification{Level: string(r.Level), OK: r.OK, Seconds: r.Seconds, Problems: []string{}}
	for _, p := range r.Problems[:min(len(r.Problems), maxRecorded)] {
		v.Problems = append(v.Problems, p.String())
	}
	if r.Sample != nil {
		v.Sample = r.Sample.Fraction
	}
	if r.Pages != nil {
		v.Pages = r.Pages.Pages - r.Pages.Unchecked
	}
	if t := r.Trial; t != nil {
		v.Tables, v.RTO, v.ServerVersion = int64(t.Checked), t.RTO, t.ServerVersion
	}
	return v
}
