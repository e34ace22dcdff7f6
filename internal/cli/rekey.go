package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
)

type rekeyOptions struct {
	common
	keyFlags
	seal sealFlags
	All  bool
}

func newRekey(env *Env) *command {
	o := &rekeyOptions{}
	return &command{
		name: "rekey", summary: "give backups new recipients", args: "[BACKUP…]", most: -1,
		about: "Encrypts the key of each backup, key.age, to new recipients in place of the present ones. The data stays as " +
			"it is: a backup of any size takes a moment. An identity that opens the backup now is needed.\n\n" +
			"Whoever had the old identity and has kept a copy of key.age, or of the backup's own key, can still read that " +
			"backup. When a key has leaked, take a new backup and remove the old ones. A backup that several --repo hold is " +
			"changed in all of them.",
		examples: []string{
			"mbwrap rekey --repo /backups --all --identity old.key --encrypt-to age1…",
			"mbwrap rekey --repo /backups latest --identity old.key --encrypt-to-file recipients.txt",
		},
		exits: []int{exitWarnings, exitStream, exitSink, exitKey, exitNoBackup, exitLocked},
		settings: append([]*setting{
			toggle(&o.All, "all", "every encrypted backup, of --server or of all servers"),
			list(&o.seal.To, "encrypt-to", "RECIPIENT", "encrypt to this age recipient (age1…) or SSH public key; may repeat"),
			list(&o.seal.ToFiles, "encrypt-to-file", "FILE", "encrypt to every recipient in this file; may repeat"),
			text(&o.seal.PassFile, "new-passphrase-file", "FILE", "encrypt with the passphrase that is the first line of this file"),
			secret(&o.seal.Passphrase, "new-passphrase", "encrypt with this passphrase"),
		}, o.keyFlags.settings()...),
		common: &o.common, places: true,
		run: func(ctx context.Context, in input) error { return runRekey(ctx, o, env, in.args) },
	}
}

// rekeyedJSON is what --json prints for each backup.
type rekeyedJSON struct {
	Server     string   `json:"server"`
	ID         string   `json:"id"`
	Repository string   `json:"repository"`
	Recipients []string `json:"recipients"`
}

func runRekey(ctx context.Context, o *rekeyOptions, env *Env, refs []string) error {
	to, err := o.seal.recipients(ctx, env)
	if err != nil {
		return err
	}
	if to == nil {
		return usagef("rekey needs new recipients: give --encrypt-to, --encrypt-to-file or --new-passphrase-file")
	}
	backups, err := o.chosen(ctx, env, refs)
	if err != nil {
		return err
	}
	done, weak := []rekeyedJSON{}, false
	for _, b := range backups {
		if err := rekeyOne(ctx, o, env, rekeying{b, to}); err != nil {
			return errorf("%s: %w", b.ID, err)
		}
		weak = weak || to.PostQuantum() && !b.PostQuantum()
		done = append(done, rekeyedJSON{b.Server, b.ID, b.Repository.Location(), to.Strings()})
	}
	if o.JSON {
		err = writeJSON(env.Stdout, done)
	}
	if weak && err == nil {
		return reported(errWarnings)
	}
	return err
}

// rekeying is one backup and its new recipients.
type rekeying struct {
	backup *catalog.Backup
	to     *encrypt.Recipients
}

func rekeyOne(ctx context.Context, o *rekeyOptions, env *Env, r rekeying) error {
	if err := o.unlock(ctx, env, r.backup); err != nil {
		return err
	}
	if err := r.backup.Rekey(ctx, r.to); err != nil {
		return err
	}
	if r.to.PostQuantum() && !r.backup.PostQuantum() {
		env.warnf("%s was not made for post-quantum recipients: its data is as weak as before, only its key is not", r.backup.ID)
	}
	env.notef("%s: now encrypted to %s", r.backup.ID, listed(r.to.Strings()))
	return nil
}

// listed writes a few recipients for people: a post-quantum one is two thousand letters long.
func listed(recipients []string) string {
	const most = 70
	short := make([]string, len(recipients))
	for i, r := range recipients {
		if len(r) > most {
			r = r[:most-1] + "…"
		}
		short[i] = printable(r)
	}
	return strings.Join(short, ", ")
}

// chosen returns the backups to rekey. What is not encrypted is an error when it was named, and left out of --all.
func (o *rekeyOptions) chosen(ctx context.Context, env *Env, refs []string) ([]*catalog.Backup, error) {
	if o.All == (len(refs) > 0) {
		return nil, usagef("rekey needs the backups, or --all: which of them?")
	}
	if o.All {
		return encryptedOnes(allBackups(ctx, &o.common))
	}
	var all []*catalog.Backup
	for _, ref := range refs {
		b, err := findUsable(ctx, env, &o.common, ref)
		if err != nil {
			return nil, err
		}
		if !b.Manifest.Encrypted {
			return nil, usagef("%s is not encrypted: it has no key to change", b.ID)
		}
		copies, err := o.copies(ctx, b)
		if err != nil {
			return nil, err
		}
		all = append(all, copies...)
	}
	return all, nil
}

// copies returns a backup as each of the repositories has it: a key that is changed in one place only is not changed.
func (o *rekeyOptions) copies(ctx context.Context, b *catalog.Backup) ([]*catalog.Backup, error) {
	repositories, err := openRepositories(ctx, &o.common)
	if err != nil {
		return nil, err
	}
	var all []*catalog.Backup
	for _, r := range repositories {
		same, err := r.Find(ctx, b.Server, b.ID)
		if errors.Is(err, catalog.ErrNoBackup) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, same)
	}
	return encryptedOnes(all, nil)
}

func encryptedOnes(all []*catalog.Backup, err error) ([]*catalog.Backup, error) {
	var some []*catalog.Backup
	for _, b := range all {
		if b.Manifest != nil && b.Manifest.Encrypted {
			some = append(some, b)
		}
	}
	if err == nil && len(some) == 0 {
		err = fmt.Errorf("no encrypted backup: %w", errNoBackup)
	}
	return some, err
}
