package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
)

// Verification is the result of the last check of a backup, kept beside it.
type Verification struct {
	Time     time.Time `json:"time"`
	Level    string    `json:"level"`
	OK       bool      `json:"ok"`
	Host     string    `json:"host"`
	Mbwrap   string    `json:"mbwrap"`
	Seconds  float64   `json:"seconds"`
	Problems []string  `json:"problems"` // the first ones
	Manifest string    `json:"manifest"` // SHA-256 of the manifest.json that was checked, in hex
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
// there.
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
	data, err := seal(v)
	if err != nil {
		return err
	}
	return replacer.Replace(ctx, join(b.Server, b.ID, VerifiedObject), data)
}
