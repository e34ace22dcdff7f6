package cli

import (
	"context"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/codec"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/xbstream"
)

type catOptions struct {
	common
	keyFlags
	Jobs int
}

func newCat(env *Env) *command {
	o := &catOptions{}
	return &command{
		name: "cat", summary: "write a backup's plain xbstream to standard output", args: "BACKUP", least: 1, most: 1,
		about: "Decodes a backup and writes the stream that mariadb-backup made, byte for byte, to standard output, " +
			"for mbstream or anything else that reads it. Everything is checked on the way. If the exit status is not 0, " +
			"what was written must not be used.",
		examples: []string{
			"mbwrap cat latest --repo /backups | mbstream -x -C /restore",
			"mbwrap cat latest --repo /backups | ssh db2 'mbwrap extract - --target-dir /restore'",
		},
		exits: []int{exitStream, exitSink, exitKey, exitNoBackup},
		settings: append([]*setting{
			number(&o.Jobs, "jobs", "N", "decoding workers (default: one a core)"),
		}, o.keyFlags.settings()...),
		common: &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runCat(ctx, o, env, in.arg(0)) },
	}
}

func runCat(ctx context.Context, o *catOptions, env *Env, ref string) error {
	if env.StdoutTTY {
		return usagef("standard output is a terminal, and the stream is binary: redirect or pipe it")
	}
	b, err := findOpen(ctx, env, &o.common, openOptions{ref, &o.keyFlags})
	if err != nil {
		return err
	}
	index, err := b.Index(ctx)
	if err != nil {
		return err
	}
	row, err := codec.Lookup(b.Manifest.Codec)
	if err != nil {
		return err
	}
	volumes := b.StoredVolumes(ctx)
	defer volumes.Close() // opened for reading only
	meter := new(pipeline.Meter)
	_, end := env.watch("cat", b.Manifest.RawBytes, meter)
	defer end()
	checker := xbstream.NewChecker(xbstream.Options{})
	out := env.binaryStdout()
	err = pipeline.Unpack(ctx, pipeline.UnpackOptions{
		Codec: row, Jobs: o.Jobs, Blocks: index.AllBlocks(), Meter: meter,
		Volume: volumes.At,
	}, func(raw *pipeline.Raw) error {
		defer raw.Release()
		if _, err := checker.Write(raw.Data); err != nil {
			return err
		}
		_, err := out.Write(raw.Data)
		return err
	})
	if err != nil {
		return err
	}
	return checker.Close()
}

// findUsable returns the backup that ref names, and refuses one that can't be read because its manifest is damaged.
func findUsable(ctx context.Context, env *Env, c *common, ref string) (*catalog.Backup, error) {
	b, err := findBackup(ctx, env, c, ref)
	if err != nil {
		return nil, err
	}
	if b.Manifest == nil {
		return nil, errorf("%s: %w", b.ID, b.Err)
	}
	return b, nil
}
