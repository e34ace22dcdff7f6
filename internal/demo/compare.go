package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"time"
)

// compare holds each table's checksum after the restore against the one noted before the backup.
func (d *demo) compare(context.Context) error {
	d.screen.begin("Compare every table with the moment of the backup")
	names := slices.Collect(maps.Keys(d.atBackup))
	for name := range d.restored {
		if _, ok := d.atBackup[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	d.screen.note("%-32s %12s %12s %12s", "table", "at backup", "bad day", "restored")
	different := 0
	for _, name := range names {
		before, was := d.atBackup[name]
		after, is := d.restored[name]
		verdict := d.screen.paint(green, "same")
		if was != is || before != after {
			verdict = d.screen.paint(red, "DIFFERENT")
			different++
		}
		// Padding by characters, not bytes: some names are not ASCII.
		d.screen.say("%-32s %12s %12s %12s  %s", name, sum(d.atBackup, name), d.sumOfBadDay(name), sum(d.restored, name), verdict)
	}
	if different > 0 {
		return fmt.Errorf("%d of %d tables are not as they were at the moment of the backup", different, len(names))
	}
	return nil
}

func sum(of map[string]uint64, name string) string {
	if v, ok := of[name]; ok {
		return fmt.Sprintf("%d", v)
	}
	return "gone"
}

// sumOfBadDay is a table's checksum after the changes, or a dash where they left it alone.
func (d *demo) sumOfBadDay(name string) string {
	if v, ok := d.changed[name]; ok && v == d.atBackup[name] {
		return "-"
	}
	return sum(d.changed, name)
}

// summary closes the demonstration with what it showed, in numbers.
func (d *demo) summary(ctx context.Context) {
	raw, stored := d.backup.RawBytes, d.backup.StoredBytes
	d.screen.title("All " + fmt.Sprint(len(d.atBackup)) + " tables are as they were at the moment of the backup.")
	d.screen.say("stored     %s as %s, %.1f to 1", megabytes(raw), megabytes(stored), float64(raw)/float64(max(stored, 1)))
	d.screen.say("backup     %s, %s", seconds(d.backupTime), rate(raw, d.backupTime))
	d.screen.say("restore    %s, %s, prepared and ready to start", seconds(d.restoreTime), rate(raw, d.restoreTime))
	if in, out, took, err := d.gzipSample(ctx); err == nil && out > 0 {
		d.screen.note("for comparison, gzip -1 on a sixth of the same stream: %.1f to 1, %s", float64(in)/float64(out), rate(in, took))
	}
	fmt.Fprintln(d.screen.out)
}

// gzipSample runs gzip -1 over pieces of the same stream, spread evenly over it: enough for a second or two.
func (d *demo) gzipSample(ctx context.Context) (in, out int64, took time.Duration, err error) {
	data, err := d.sample(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	var count counter
	gzip := exec.CommandContext(ctx, "gzip", "-1")
	gzip.Stdin, gzip.Stdout = bytes.NewReader(data), &count
	started := time.Now()
	err = gzip.Run()
	return int64(len(data)), int64(count), time.Since(started), err
}

// sample returns every sixth MiB of the stream.
func (d *demo) sample(ctx context.Context) ([]byte, error) {
	const piece, of = 1 << 20, 6
	cat := exec.CommandContext(ctx, d.program, "cat", "--repo", d.repo(), "--server", "demo", "latest")
	stream, err := cat.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cat.Start(); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	for err == nil {
		if _, err = io.CopyN(&data, stream, piece); err == nil {
			_, err = io.CopyN(io.Discard, stream, (of-1)*piece)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return data.Bytes(), errors.Join(err, cat.Wait())
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
