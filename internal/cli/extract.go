package cli

import (
	"context"

	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/restore"
	"github.com/mbwrap/mbwrap/xbstream"
)

type extractOptions struct {
	common
	keyFlags
	Target string
	Owner  string
	Expect string
}

func newExtract(env *Env) *command {
	o := &extractOptions{Expect: "backup"}
	return &command{
		name: "extract", summary: "unpack any xbstream safely", args: "[FILE|-]", most: 1,
		about: "Unpacks an xbstream, plain or compressed with zstd, gzip or lz4, and encrypted with age or not, from a file or " +
			"standard input: what mbstream -x should be. Every checksum and the order of every file are checked, a stream that was cut is found, " +
			"no path leads outside of the target, nothing is overwritten, and renames, removes and rewrites are applied. " +
			"The files appear in the target when all of them are complete. Nothing is prepared: see mbwrap restore.",
		examples: []string{
			"mbwrap extract backup.xbstream.gz --target-dir /srv/restore",
			"ssh db1 cat /backups/full.xbs.zst | mbwrap extract - --target-dir /srv/restore",
			"mbstream -c *.cnf | mbwrap extract --expect any --target-dir /tmp/x",
		},
		exits: []int{exitStream, exitSink, exitKey, exitNoBackup, exitLocked},
		settings: append([]*setting{
			text(&o.Target, "target-dir", "DIR", "where to; absent, or empty but for lost+found").letter("C"),
			text(&o.Owner, "owner", "USER:GROUP", "who gets the files (default: whoever runs this)"),
			text(&o.Expect, "expect", "WHAT", "backup: a whole backup; any: any well-formed stream").among("backup", "any"),
		}, o.keyFlags.settings()...),
		common: &o.common,
		run: func(ctx context.Context, in input) error {
			ref := in.arg(0)
			if ref == "" {
				ref = "-"
			}
			return runExtract(ctx, o, env, ref)
		},
	}
}

func runExtract(ctx context.Context, o *extractOptions, env *Env, ref string) error {
	if o.Target == "" {
		return usagef("extract needs --target-dir: where are the files to go?")
	}
	stream, err := openStream(ctx, env, ref, &o.keyFlags)
	if err != nil {
		return err
	}
	defer stream.Interrupt()
	if o.Expect == "any" {
		stream.Expect = xbstream.ExpectAny
	}
	meter := new(pipeline.Meter)
	reporter, end := env.watch("extract", 0, meter)
	defer end()
	result, err := restore.Extract(ctx, stream, restore.ExtractOptions{
		Target: o.Target, Owner: o.Owner, Version: programVersion(), Meter: meter,
		OnPhase: func(p restore.Phase) { reporter.SetPhase(string(p)) },
	})
	end()
	if err != nil {
		return err
	}
	return tellRestored(env, &o.common, &result)
}
