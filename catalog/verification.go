package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
)

// Verification is the result of the last check of a backup, kept beside it. Whoever can write to the repository can write
// it: it informs, and proves nothing.
type Verification struct {
	Time     time.Time `json:"time"`
	Level    string    `json:"level"` // "hash", "read", "pages" or "restore": each finds more than the one before
	OK       bool      `json:"ok"`
	Host     string    `json:"host"`
	Mbwrap   string    `json:"mbwrap"`
	Seconds  float64   `json:"seconds"`
	Problems []string  `json:"problems"` // the first ones
	Manifest string    `json:"manifest"` // SHA-256 of the manifest.json that was checked, in hex

	Sample        float64 `json:"sample,omitempty"`         // the part of the blocks that was read; 0 and 1: all
	Pages         int64   `json:"pages,omitempty"`          // InnoDB pages whose checksums were checked
	Tables        int64   `json:"tables,omitempty"`         // tables that a server checked
	RTO           float64 `json:"rto_seconds,omitempty"`    // how long a restore is expected to take
	ServerVersion string  `json:"server_version,omitempty"` // of the server that checked the tables

	// Failure is an earlier check that found something which this one, as it looked at less, could not find again. Only
	// a check of the whole backup at its level or a deeper one clears it.
	Failure *Verification `json:"failure,omitempty"`
	// Deeper is an earlier check that found nothing and looked at more than this one.
	Deeper *Verification `json:"deeper,omitempty"`
}

// Passed tells whether, by all that is known, nothing is wrong.
func (v *Verification) Passed() bool { return v.OK && v.Failure == nil }

// levels are the levels of verification, the cheapest first.
func levels() []string { return []string{"hash", "read", "pages", "restore"} }

// depth returns how much a check of a level finds. Levels of later versions are not known: none is deeper, and for what
// they clear they count as the least.
func depth(level string) (atLeast, atMost int) {
	if i := slices.Index(levels(), level); i >= 0 {
		return i, i
	}
	return -1, len(levels())
}

// covers tells whether v looked at all that old looked at: the whole backup, at the same level or a deeper one.
func (v *Verification) covers(old *Verification) bool {
	if v.Sample > 0 && v.Sample < 1 {
		return false
	}
	mine, _ := depth(v.Level)
	_, its := depth(old.Level)
	return v.Level == old.Level || mine >= its
}

// follow takes over from the record before what v does not replace.
func (v *Verification) follow(before *Verification) {
	failure := before.Failure
	if !before.OK && (failure == nil || before.coversLevel(failure)) {
		failure = before
	}
	if failure != nil && (v.OK && !v.covers(failure) || !v.OK && !v.coversLevel(failure)) {
		v.Failure = failure.alone()
	}
	deeper := before.Deeper
	if before.OK && (deeper == nil || before.covers(deeper)) {
		deeper = before
	}
	if v.OK && deeper != nil && !v.covers(deeper) {
		v.Deeper = deeper.alone()
	}
}

// coversLevel tells whether what clears v clears old as well.
func (v *Verification) coversLevel(old *Verification) bool {
	whole := *v
	whole.Sample = 0
	return whole.covers(old)
}

// alone returns a copy of v without the records before it.
func (v *Verification) alone() *Verification {
	one := *v
	one.Failure, one.Deeper = nil, nil
	return &one
}

// verification reads the record of the last check of the given manifest.
func (r *Repository) verification(ctx context.Context, e entry, manifest []byte) (*Verification, error) {
	data, err := readObject(ctx, r.sink, join(e.server, e.id, VerifiedObject), maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.location, err)
	}
	v := new(Verification)
	if err := unseal(data, v); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", VerifiedObject, e.id, err)
	}
	if v.Manifest != sumOf(manifest) {
		return nil, fmt.Errorf("%s of %s: it is about another %s", VerifiedObject, e.id, ManifestObject)
	}
	return v, nil
}

// Record stores v as the result of b's last check. If v does not say which manifest was checked it is the one that is
// there. What the record before said, and v is not deep enough to replace, is taken over into v: see its Failure and Deeper.
func (b *Backup) Record(ctx context.Context, v *Verification) error {
	replacer, ok := b.Repository.sink.(sinks.Replacer)
	if !ok {
		return fmt.Errorf("%s can't replace objects", b.Repository.location)
	}
	if v.Problems == nil {
		v.Problems = []string{}
	}
	if v.Manifest == "" {
		manifest, err := b.ReadManifest(ctx)
		if err != nil {
			return err
		}
		v.Manifest = sumOf(manifest)
	}
	if err := b.followRecord(ctx, v); err != nil {
		return err
	}
	data, err := seal(v)
	if err != nil {
		return err
	}
	return replacer.Replace(ctx, join(b.Server, b.ID, VerifiedObject), data)
}

// followRecord has v take over from the record that is there, if it is about the same manifest. A record that can't be
// made out says nothing.
func (b *Backup) followRecord(ctx context.Context, v *Verification) error {
	v.Failure, v.Deeper = nil, nil
	data, err := b.content(ctx, VerifiedObject, maxManifest)
	if err != nil {
		return err
	}
	before := new(Verification)
	if unseal(data, before) == nil && before.Manifest == v.Manifest {
		v.follow(before)
	}
	return nil
}
