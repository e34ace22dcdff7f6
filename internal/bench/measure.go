package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sample is what one run took.
type sample struct {
	wall, cpu time.Duration // cpu is user and system time, of all processes of the run
	rss       int64         // the largest resident set of a process of the run, in bytes
	size      int64         // bytes of output, where that is measured
}

// command is a program to measure. Its own arguments never hold the names of its input and output: those are files.
type command struct {
	argv  []string
	stdin string // a file; "" is the null device
	out   string // the file that standard output goes to; "" is the null device
}

// measure runs c once.
func measure(ctx context.Context, c command) (s sample, err error) {
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if c.stdin != "" {
		in, err := os.Open(c.stdin)
		if err != nil {
			return s, err
		}
		defer in.Close()
		cmd.Stdin = in
	}
	if c.out != "" {
		out, err := os.Create(c.out)
		if err != nil {
			return s, err
		}
		defer out.Close()
		cmd.Stdout = out
	}
	syscall.Sync() // what the run before left dirty must not slow this one
	started := time.Now()
	err = cmd.Run()
	s.wall = time.Since(started)
	if err != nil {
		text := stderr.Bytes()
		return s, fmt.Errorf("%s: %w: %s", strings.Join(c.argv, " "), err, bytes.TrimSpace(text[max(0, len(text)-2000):]))
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return s, fmt.Errorf("%s: this system does not tell what a process used", c.argv[0])
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.rss = usage.Maxrss << 10
	if c.out != "" {
		info, err := os.Stat(c.out)
		if err != nil {
			return s, err
		}
		s.size = info.Size()
	}
	return s, nil
}

// tooLong is what a run may take to be repeated.
const tooLong = 20 * time.Second

// contender is one row of a table.
type contender struct {
	name    string
	ours    bool
	run     func(context.Context) (sample, error)
	samples []sample
}

// race lets the contenders take turns, runs times each; one that takes too long runs once.
func race(ctx context.Context, all []*contender, runs int, progress func(*contender)) error {
	for round := range runs {
		for _, c := range all {
			if round > 0 && c.samples[0].wall > tooLong {
				continue
			}
			s, err := c.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			c.samples = append(c.samples, s)
			progress(c)
		}
	}
	return nil
}

// median returns the medians of each measure, taken one by one. It needs at least one sample.
func (c *contender) median() sample {
	return sample{
		wall: middle(c.samples, func(s sample) time.Duration { return s.wall }),
		cpu:  middle(c.samples, func(s sample) time.Duration { return s.cpu }),
		rss:  slices.MaxFunc(c.samples, func(a, b sample) int { return int(a.rss - b.rss) }).rss,
		size: c.samples[0].size,
	}
}

func middle(samples []sample, of func(sample) time.Duration) time.Duration {
	var all []time.Duration
	for _, s := range samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
