package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	// Recipients are the public keys that key.age was encrypted to when the backup was made. Backup.Recipients knows
	// the current ones.
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
	// Key is key.age as it was when the backup was made; nil unless it is encrypted. Backup.Keys knows the current one.
	Key *Object `json:"key,omitempty"`

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

// Objects returns all objects that the manifest vouches for as long as the backup lives, volumes first. key.age, which may
// change, is not among them: Backup.Keys tells of it.
func (m *Manifest) Objects() []Object {
	return append(append([]Object{}, m.Volumes...), m.Index, m.Log)
}

// Sums returns the content of SHA256SUMS as it was when the backup was made: one line an object, as sha256sum writes it.
// Backup.SumsFit knows of changed keys.
func (m *Manifest) Sums() []byte { return m.sums(m.Key) }

// sums returns the content of SHA256SUMS with the given key.age, or without one when it is nil.
func (m *Manifest) sums(key *Object) []byte {
	all := append([]Object{}, m.Volumes...)
	if key != nil {
		all = append(all, *key)
	}
	var b strings.Builder
	for _, o := range append(all, m.Index, m.Log) {
		fmt.Fprintf(&b, "%s  %s\n", o.SHA256, o.Name)
	}
	return []byte(b.String())
}

// encodeManifest returns the sealed document. mac makes the code of an encrypted backup's; it is not called for others.
func encodeManifest(m *Manifest, mac macFunc) ([]byte, error) {
	m.Started, m.Finished = m.Started.UTC(), m.Finished.UTC()
	for _, list := range []*[]string{&m.ToolOptions, &m.Recipients, &m.Warnings} {
		if *list == nil {
			*list = []string{}
		}
	}
	if m.Levels == nil {
		m.Levels = []LevelCount{}
	}
	if !m.Encrypted {
		return seal(m)
	}
	return sealMAC(m, mac)
}

// decodeManifest verifies the seal of a manifest.json and decodes it. Of an encrypted backup's code it checks the form
// only: the code itself needs the key. The errors match ErrManifest or ErrFormat.
func decodeManifest(data []byte) (*Manifest, error) {
	// The format comes first: in another one the other members may have another form.
	var head struct {
		Format int             `json:"format"`
		MAC    json.RawMessage `json:"mac"`
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
	if _, _, hasMAC := cutMAC(data); m.Encrypted && !hasMAC || !m.Encrypted && head.MAC != nil {
		return nil, fmt.Errorf("%w: encrypted is %v, and the code that goes with it is not", ErrManifest, m.Encrypted)
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

// unlisted are names that no volume, index or log can have.
var unlisted = []string{ManifestObject, SumsObject, VerifiedObject, KeyObject, RekeyObject}

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
	if err := m.checkSealing(); err != nil {
		return err
	}
	return m.checkObjects()
}

// checkSealing refuses a manifest that is half encrypted: what names of objects, recipients and key say must agree.
func (m *Manifest) checkSealing() error {
	for _, o := range m.Objects() {
		if strings.HasSuffix(o.Name, sealedSuffix) != m.Encrypted {
			return fmt.Errorf("object name %q, and encrypted is %v", o.Name, m.Encrypted)
		}
	}
	if !m.Encrypted {
		if m.Key != nil || len(m.Recipients) > 0 {
			return errors.New("it has a key or recipients and is not encrypted")
		}
		return nil
	}
	if m.Key == nil {
		return errors.New("it is encrypted and has no key")
	}
	if err := checkKey(*m.Key); err != nil {
		return err
	}
	return checkRecipients(m.Recipients)
}

// Limits of what is said about keys. maxKey is the size of key.age in bytes: some hundred recipients of the largest kind
// fit in.
const (
	maxKey        = 1 << 20
	maxRecipients = 1 << 12
	maxRecipient  = 1 << 14 // bytes of one
)

// checkKey refuses what no key.age can be.
func checkKey(o Object) error {
	if o.Name != KeyObject || o.Size < 1 || o.Size > maxKey || !sha256Hex.MatchString(o.SHA256) {
		return fmt.Errorf("key %q: size %d, sha256 %q", o.Name, o.Size, o.SHA256)
	}
	return nil
}

// checkRecipients refuses lists that are empty or too long, and texts that could do things to a terminal.
func checkRecipients(list []string) error {
	if len(list) == 0 || len(list) > maxRecipients {
		return fmt.Errorf("%d recipients", len(list))
	}
	for _, r := range list {
		if r == "" || len(r) > maxRecipient || !utf8.ValidString(r) || strings.ContainsFunc(r, unprintable) {
			return fmt.Errorf("recipient %.80q", r)
		}
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

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
