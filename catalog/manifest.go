package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Manifest is what manifest.json holds: everything that can be known about a backup without a key. It names no tables
// and holds no secrets. Sizes are bytes.
type Manifest struct {
	Format   int       `json:"format"` // version of the manifest and index formats
	ID       string    `json:"id"`
	Server   string    `json:"server"`
	Type     string    `json:"type"`   // Full or Incremental
	Parent   *string   `json:"parent"` // ID of an incremental's parent
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`

	Mbwrap        string   `json:"mbwrap"` // version of the program that wrote it
	Host          string   `json:"host"`   // where it ran
	Source        string   `json:"source"` // "tool" or "stdin"
	ToolVersion   string   `json:"tool_version"`
	ToolOptions   []string `json:"tool_options"` // names of the user's options, without their values
	ServerVersion string   `json:"server_version"`

	Codec     string       `json:"codec"`
	Level     string       `json:"level"` // as asked for: "auto" or a number
	Levels    []LevelCount `json:"levels"`
	Encrypted bool         `json:"encrypted"`
	// Recipients are the public keys that key.age is encrypted to.
	Recipients []string `json:"recipients"`

	RawBytes    int64 `json:"raw_bytes"`
	StoredBytes int64 `json:"stored_bytes"` // of all volumes
	BlockSize   int64 `json:"block_size"`
	Blocks      int64 `json:"blocks"`
	Chunks      int64 `json:"chunks"`
	Files       int64 `json:"files"`

	FromLSN uint64  `json:"from_lsn"`
	ToLSN   uint64  `json:"to_lsn"`
	LastLSN uint64  `json:"last_lsn"`
	Binlog  *Binlog `json:"binlog"` // nil when the server wrote none
	Partial bool    `json:"partial"`

	Volumes []Object `json:"volumes"` // in order
	Index   Object   `json:"index"`
	Log     Object   `json:"log"`

	Timings  Timings  `json:"timings"`
	Warnings []string `json:"warnings"`
}

// LevelCount says how many blocks were compressed at a level.
type LevelCount struct {
	Level  int   `json:"level"`
	Blocks int64 `json:"blocks"`
}

// Binlog is the position in the binary log that the backup stands for.
type Binlog struct {
	File     string `json:"file"`
	Position uint64 `json:"position"`
	GTID     string `json:"gtid"`
}

// Object is a stored object of the backup: its name in the backup's folder, its stored bytes and their SHA-256 in hex.
type Object struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Timings says where the time went, in seconds. Compress is summed over the workers; Locked is how long the server's
// DDL or commits were blocked.
type Timings struct {
	Total      float64 `json:"total"`
	Source     float64 `json:"source"`
	Check      float64 `json:"check"`
	Compress   float64 `json:"compress"`
	Sink       float64 `json:"sink"`
	Locked     float64 `json:"locked"`
	Bottleneck string  `json:"bottleneck"` // "source", "cpu" or "sink"
}

// Objects returns all objects that the manifest vouches for, volumes first.
func (m *Manifest) Objects() []Object {
	return append(append([]Object{}, m.Volumes...), m.Index, m.Log)
}

// Sums returns the content of SHA256SUMS: one line an object, as sha256sum writes it.
func (m *Manifest) Sums() []byte {
	var b strings.Builder
	for _, o := range m.Objects() {
		fmt.Fprintf(&b, "%s  %s\n", o.SHA256, o.Name)
	}
	return []byte(b.String())
}

// encodeManifest returns the sealed document.
func encodeManifest(m *Manifest) ([]byte, error) {
	m.Started, m.Finished = m.Started.UTC(), m.Finished.UTC()
	for _, list := range []*[]string{&m.ToolOptions, &m.Recipients, &m.Warnings} {
		if *list == nil {
			*list = []string{}
		}
	}
	if m.Levels == nil {
		m.Levels = []LevelCount{}
	}
	return seal(m)
}

// decodeManifest verifies and decodes a manifest.json. The errors match ErrManifest or ErrFormat.
func decodeManifest(data []byte) (*Manifest, error) {
	// The format comes first: in another one the other members may have another form.
	var head struct {
		Format int `json:"format"`
	}
	if err := unseal(data, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if head.Format > Format {
		return nil, fmt.Errorf("manifest format %d: %w", head.Format, ErrFormat)
	}
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

var (
	sha256Hex  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	objectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// unlisted are the objects of a backup that no manifest vouches for.
var unlisted = []string{ManifestObject, SumsObject, VerifiedObject}

// maxObject bounds sizes and counts from a manifest.
const maxObject = 1 << 56

// check refuses what no Commit writes: a manifest is input like any other.
func (m *Manifest) check() error {
	_, typ, ok := ParseID(m.ID)
	if m.Format < 1 || !ok || m.Type != typ || CheckServer(m.Server) != nil {
		return fmt.Errorf("format %d, server %q, id %q, type %q", m.Format, m.Server, m.ID, m.Type)
	}
	if m.Parent != nil && !isID(*m.Parent) {
		return fmt.Errorf("parent %q", *m.Parent)
	}
	for _, n := range []int64{m.RawBytes, m.StoredBytes, m.Blocks, m.Chunks, m.Files, m.BlockSize} {
		if n < 0 || n > maxObject {
			return fmt.Errorf("size or count %d", n)
		}
	}
	return m.checkObjects()
}

// checkObjects refuses names that could lead elsewhere, and sizes that can't be.
func (m *Manifest) checkObjects() error {
	if len(m.Volumes) == 0 {
		return errors.New("it has no volumes")
	}
	seen := make(map[string]bool)
	for _, o := range m.Objects() {
		if !objectName.MatchString(o.Name) || slices.Contains(unlisted, o.Name) || seen[o.Name] {
			return fmt.Errorf("object name %q", o.Name)
		}
		seen[o.Name] = true
		if o.Size < 0 || o.Size > maxObject || !sha256Hex.MatchString(o.SHA256) {
			return fmt.Errorf("object %q: size %d, sha256 %q", o.Name, o.Size, o.SHA256)
		}
	}
	left := m.StoredBytes
	for i, v := range m.Volumes {
		if prefix, _ := volumeName(i+1, ""); !strings.HasPrefix(v.Name, prefix) {
			return fmt.Errorf("object name %q of volume %d", v.Name, i+1)
		}
		if left -= v.Size; left < 0 {
			break
		}
	}
	if left != 0 {
		return fmt.Errorf("its volumes do not have the %d bytes that it says", m.StoredBytes)
	}
	return nil
}
