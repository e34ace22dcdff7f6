// Package catalog knows what backups exist: the repository's layout, the manifest that commits a backup, the index that
// tells where everything in it lies, and the lock that keeps two runs apart.
//
// A backup is a folder of objects, ROOT/SERVER/ID/…, whose manifest.json is written last: without a manifest there is no
// backup. docs/FORMAT.md defines every object. The package reads and writes them through package sinks and judges
// nothing about the database: whether a stream is complete is decided before Commit is called.
//
// An encrypted backup has an identity of its own, kept beside it in key.age, which Unlock opens. Volumes, index and log are
// sealed to that identity, and the manifest carries a code that only its holder can make: what belongs together can't be
// swapped, cut or mixed. Listing, and the digests of what is stored, need no key.
package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/mbwrap/mbwrap/pipeline"
)

// Format is the version of the repository, manifest and index formats that this package writes, and the highest one it
// reads.
const Format = 1

// Names of the objects of a repository and of a backup.
const (
	RepositoryObject = "mbwrap.json"
	ManifestObject   = "manifest.json"
	SumsObject       = "SHA256SUMS"
	VerifiedObject   = "verified.json"
	KeyObject        = "key.age"  // the backup's own identity, sealed to the operators
	RekeyObject      = "key.json" // what the last change of key.age left behind
	indexObject      = "index.zst"
	logObject        = "backup.log.zst"
	lockObject       = "lock"
	sealedSuffix     = ".age" // of volumes, index and log of an encrypted backup
	volumePattern    = "data.%04d.xbs%s"
	maxVolumes       = 9999 // beyond it "cat data.*" would not keep the order
)

// Types of backups.
const (
	Full        = "full"
	Incremental = "incr"
)

// Errors that callers match with errors.Is.
var (
	ErrNotRepository = errors.New("not a repository")
	ErrNotEmpty      = errors.New("not a repository, and not empty")
	ErrNoBackup      = errors.New("no such backup")
	ErrAmbiguous     = errors.New("more than one backup fits")
	ErrFormat        = errors.New("written by a newer version")
	ErrManifest      = errors.New("damaged manifest")
	ErrIndex         = errors.New("damaged index")
	ErrMissing       = errors.New("an object of the backup is missing") // matches fs.ErrNotExist too
	ErrServerName    = errors.New("not a name to file backups under")

	// ErrAltered says that an encrypted backup is not as the holder of its key left it. It matches ErrManifest.
	ErrAltered error = &kindError{"not as it was when it was sealed: altered or damaged", ErrManifest}
	// ErrVolume says that a volume as a whole is not what it should be: its size, or the seal at its beginning or end.
	// It matches pipeline.ErrBlock, since every block in it is in doubt.
	ErrVolume error = &kindError{"damaged volume", pipeline.ErrBlock}
)

// kindError is a kind of error that is of a wider kind too.
type kindError struct {
	text  string
	wider error
}

func (e *kindError) Error() string        { return e.text }
func (e *kindError) Is(target error) bool { return target == e.wider }

var serverName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// CheckServer refuses names that can't be a folder in every sink: 1 to 128 letters, digits, dots, dashes and
// underscores, the first one no dot and no dash.
func CheckServer(name string) error {
	if !serverName.MatchString(name) {
		return fmt.Errorf("%q: %w (letters, digits, dots, dashes, underscores)", name, ErrServerName)
	}
	return nil
}

var backupID = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-(full|incr)$`)

// newID returns the ID of a backup of the given type that started at the given time.
func newID(started time.Time, typ string) string {
	return started.UTC().Format("20060102T150405Z") + "-" + typ
}

// isID tells whether s has the form of a backup's ID.
func isID(s string) bool { return backupID.MatchString(s) }

// volumeName returns the name of volume n, counted from 1.
func volumeName(n int, suffix string) (string, error) {
	if n > maxVolumes {
		return "", fmt.Errorf("a backup has at most %d volumes: larger ones are needed", maxVolumes)
	}
	return fmt.Sprintf(volumePattern, n, suffix), nil
}

// join makes an object's name.
func join(parts ...string) string { return strings.Join(parts, "/") }

// ParseID takes a backup's ID apart. ok is false if s has not the form of one.
func ParseID(s string) (started time.Time, typ string, ok bool) {
	if !isID(s) {
		return time.Time{}, "", false
	}
	stamp, typ, _ := strings.Cut(s, "-")
	started, err := time.Parse("20060102T150405Z", stamp)
	return started, typ, err == nil
}
