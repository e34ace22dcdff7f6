package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/mariadb/scratch"
	"github.com/mbwrap/mbwrap/mariadb/server"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

// trialPool is the server's buffer pool in bytes, unless memory is given: the check of a large table walks its indexes.
const trialPool = 256 << 20

// isDamage tells whether an error of a restore is about what is stored.
func isDamage(err error) bool {
	return errors.Is(err, pipeline.ErrBlock) || errors.Is(err, catalog.ErrIndex) || errors.Is(err, catalog.ErrMissing) ||
		errors.Is(err, restore.ErrMismatch) || errors.Is(err, restore.ErrReserved) || isA[*xbstream.Error](err)
}

// tryServer starts a server on the restored files and has it look at them.
func (c *checker) tryServer(ctx context.Context, t *Trial, dir *trialDir, args []string) (err error) {
	c.options.OnPhase(phaseStart)
	s := &scratch.Server{Dir: dir.data(), Restored: true, Args: args, Timeout: c.options.Trial.Timeout, BufferPool: trialPool}
	if memory := c.options.Trial.UseMemory; memory > 0 {
		s.BufferPool = memory
	}
	begun := time.Now()
	if err := s.Start(ctx); err != nil {
		return c.startFailed(ctx, dir, err)
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	t.Start = time.Since(begun).Seconds()
	t.RTO = t.Extract + t.Prepare + t.HandOver + t.Start
	t.RTOHow = fmt.Sprintf("measured here: %.1f s to extract out of %s, %.1f s to prepare, %.1f s to hand over, %.1f s until a server answered",
		t.Extract, c.backup.Repository.Location(), t.Prepare, t.HandOver, t.Start)
	dir.look()
	if err := s.DB().QueryRowContext(ctx, "SELECT VERSION()").Scan(&t.ServerVersion); err != nil {
		return fmt.Errorf("ask the server for its version: %w", err)
	}
	c.options.OnPhase(phaseCheck)
	begun = time.Now()
	err = c.checkServer(ctx, t, s)
	t.Check = time.Since(begun).Seconds()
	dir.look()
	return err
}

// startFailed tells data on which no server can live from a machine on which none can.
func (c *checker) startFailed(ctx context.Context, dir *trialDir, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.Is(err, scratch.ErrEnded) && !errors.Is(err, scratch.ErrIncomplete) {
		return err
	}
	if full := dir.full(); full != nil {
		return full
	}
	c.problem(whole("", "no server starts on the restored files: "+err.Error()))
	return nil
}

// checkServer has the server check its tables, answer statements and count rows.
func (c *checker) checkServer(ctx context.Context, t *Trial, s *scratch.Server) error {
	for _, part := range []func(context.Context, *Trial, *scratch.Server) error{c.checkTables, c.runStatements, c.compareRows} {
		err := part(ctx, t, s)
		if errors.Is(err, scratch.ErrEnded) && ctx.Err() == nil {
			c.problem(whole("", "the server broke down over the restored tables: "+err.Error()))
			return nil
		}
		if err != nil {
			return err
		}
		if s.DB() == nil {
			c.problem(whole("", "the server did not come up again after the check of a table: nothing more was looked at"))
			return nil
		}
	}
	return nil
}

func (c *checker) checkTables(ctx context.Context, t *Trial, s *scratch.Server) error {
	done := 0
	tables, err := s.CheckTables(ctx, scratch.CheckOptions{
		Mode: c.options.Trial.Check, Parallel: c.options.Jobs,
		OnTotal: func(n int) { t.Tables = n; c.options.Trial.OnTables(0, n) },
		OnTable: func(scratch.Table) { done++; c.options.Trial.OnTables(done, t.Tables) },
	})
	if err != nil {
		return fmt.Errorf("check tables: %w", err)
	}
	t.Tables = len(tables)
	for _, table := range tables {
		c.judgeTable(t, table)
	}
	if t.Checked == 0 {
		c.problem(whole("", fmt.Sprintf("of the %d tables in the restored server none could be checked", t.Tables)))
	}
	return nil
}

// judgeTable takes over what the server says of a table.
func (c *checker) judgeTable(t *Trial, table scratch.Table) {
	said := strings.Join(table.Messages, "; ")
	switch table.Status {
	case scratch.StatusCorrupt:
		t.Checked++
		p := whole("", fmt.Sprintf("table %s is corrupt in the restored server: %s", table, said))
		p.Tables = []string{table.String()}
		c.problem(p)
		c.report.loseTable(table.String())
	case scratch.StatusNotChecked:
		if t.NotCheckedCount++; len(t.NotChecked) < maxNotes {
			t.NotChecked = append(t.NotChecked, fmt.Sprintf("%s: %s", table, said))
		}
	case scratch.StatusWarning:
		t.Checked++
		t.note("table %s: %s", table, said)
	default:
		t.Checked++
	}
}

// loseTable adds a table to those that can't be had back as they were.
func (r *Report) loseTable(name string) {
	if slices.Contains(r.LostTables, name) {
		return
	}
	r.LostTableCount++
	if len(r.LostTables) < maxLost {
		r.LostTables = append(r.LostTables, name)
	}
	if r.Restorable == RestorableAll {
		r.Restorable = RestorableTables
	}
}

func (c *checker) runStatements(ctx context.Context, t *Trial, s *scratch.Server) error {
	statements := c.options.Trial.Statements
	if len(statements) == 0 {
		return nil
	}
	wrong, err := s.RunSQL(ctx, statements)
	if err != nil {
		return fmt.Errorf("run statements: %w", err)
	}
	t.Statements = len(statements)
	for _, m := range wrong {
		c.problem(whole("", m.String()))
	}
	return nil
}

func (c *checker) compareRows(ctx context.Context, t *Trial, s *scratch.Server) error {
	b := c.options.Trial.Baseline
	if b == nil {
		return nil
	}
	rows, err := s.CountRows(ctx, server.CountOptions{Parallel: c.options.Jobs})
	if err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	wrong, notes := b.compare(rows, c.options.Trial.Drift)
	t.Compared = len(b.Tables)
	for _, w := range wrong {
		p := whole("", w.text)
		p.Tables = []string{w.table}
		c.problem(p)
	}
	for _, n := range notes {
		t.note("%s", n)
	}
	return nil
}
