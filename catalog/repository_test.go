package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

func TestInit(t *testing.T) {
	good, err := seal(repositoryMark{repositoryKind, Format})
	if err != nil {
		t.Fatal(err)
	}
	other, err := seal(repositoryMark{"something else", Format})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		objects map[string][]byte
		created bool
		want    error
	}{
		{"nothing", nil, true, nil},
		{"a repository", map[string][]byte{RepositoryObject: good}, false, nil},
		{"a repository with backups", map[string][]byte{RepositoryObject: good, "a/b/c": nil, "z": nil}, false, nil},
		{"other things", map[string][]byte{"photo.jpg": nil}, false, ErrNotEmpty},
		{"a folder", map[string][]byte{"a/b": nil}, false, ErrNotEmpty},
		{"a damaged mark", map[string][]byte{RepositoryObject: good[1:]}, false, ErrNotRepository},
		{"a damaged mark behind backups", map[string][]byte{RepositoryObject: good[1:], "db1/x": nil}, false, ErrNotRepository},
		{"an empty mark", map[string][]byte{RepositoryObject: nil}, false, ErrNotRepository},
		{"another kind of mark", map[string][]byte{RepositoryObject: other}, false, ErrNotRepository},
		{"a huge mark", map[string][]byte{RepositoryObject: make([]byte, maxMark+1)}, false, errTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			sink := newMemory()
			for name, data := range test.objects {
				sink.put(name, data)
			}
			before := sink.names("")
			r, created, err := Init(t.Context(), sink, "A")
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) || created != test.created {
				t.Fatalf("got created %v and error %v, want %v and %v", created, err, test.created, test.want)
			}
			if err == nil {
				if r.Location() != "A" || r.Sink() != sinks.Sink(sink) {
					t.Errorf("got location %q", r.Location())
				}
				if _, err := Open(t.Context(), sink, "A"); err != nil {
					t.Errorf("open afterwards: %v", err)
				}
			} else if !slices.Equal(sink.names(""), before) {
				t.Errorf("objects were %q, are %q", before, sink.names(""))
			}
		})
	}
}

func TestInitFails(t *testing.T) {
	for _, fault := range []faulty.Fault{
		{Op: faulty.Open, Err: errBoom}, {Op: faulty.List, Err: errBoom}, {Op: faulty.Create, Err: errBoom},
		{Op: faulty.Write, Err: errBoom}, {Op: faulty.Commit, Err: errBoom}, {Op: faulty.Open, Skip: 1, Err: errBoom},
	} {
		sink := newMemory()
		if r, created, err := Init(t.Context(), faulty.New(fault).Wrap(sink), "A"); !errors.Is(err, errBoom) || created || r != nil {
			t.Errorf("fault in %s: got %v, created %v, error %v", fault.Op, r, created, err)
		}
		if _, _, err := Init(t.Context(), sink, "A"); err != nil {
			t.Errorf("after a fault in %s: %v", fault.Op, err)
		}
	}
}

func TestOpenWithoutRepository(t *testing.T) {
	if _, err := Open(t.Context(), newMemory(), "A"); !errors.Is(err, ErrNotRepository) {
		t.Errorf("got error %v, want %v", err, ErrNotRepository)
	}
}

// TestConcurrentInit: all come to a repository, one has made it.
func TestConcurrentInit(t *testing.T) {
	for range 20 {
		sink := newMemory()
		var group sync.WaitGroup
		var mutex sync.Mutex
		made := 0
		for range 8 {
			group.Go(func() {
				_, created, err := Init(t.Context(), sink, "A")
				mutex.Lock()
				defer mutex.Unlock()
				if err != nil {
					t.Errorf("got error %v", err)
				}
				if created {
					made++
				}
			})
		}
		group.Wait()
		if made != 1 {
			t.Errorf("%d say that they made it, want 1", made)
		}
	}
}

// TestInitLoses: another run makes the repository between our look and our write.
func TestInitLoses(t *testing.T) {
	sink := newMemory()
	late := &lateComer{memory: sink, name: RepositoryObject, make: func() { repositories(t, sink) }}
	if _, created, err := Init(t.Context(), late, "A"); err != nil || created {
		t.Errorf("got created %v, error %v", created, err)
	}
}

// TestInitBetween: another run makes the repository, and files a backup in it, while we look.
func TestInitBetween(t *testing.T) {
	sink := newMemory()
	late := &lateListing{memory: sink, before: func() {
		repositories(t, sink)
		sink.put("db1/"+beganID+"/data.0001.xbs", nil)
	}}
	if _, created, err := Init(t.Context(), late, "A"); err != nil || created {
		t.Errorf("got created %v, error %v", created, err)
	}
}

// lateListing calls before once, ahead of the first List.
type lateListing struct {
	*memory
	before func()
}

func (l *lateListing) List(ctx context.Context, prefix string) ([]sinks.Info, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.memory.List(ctx, prefix)
}

// filled is a repository with backups in all states:
//
//	db1  full at 18:01:02 complete, incr at 19:01:02 with a warning, full at 20:01:02 verified as bad,
//	     full at 21:01:02 with a damaged manifest, full at 22:01:02 incomplete
//	db2  full at 18:01:02 complete and verified
func filled(t *testing.T) (*Repository, *memory) {
	t.Helper()
	sink := newMemory()
	r := repositories(t, sink)[0]
	stream := mariadbStream(t)
	job{stream: stream}.mustRun(t, "db1", r)
	job{stream: stream, typ: Incremental, started: began.Add(time.Hour), edit: func(m *Manifest) {
		m.Parent, m.Warnings = new(beganID), []string{"a table was not locked"}
	}}.mustRun(t, "db1", r)
	bad := job{stream: stream, started: began.Add(2 * time.Hour)}.mustRun(t, "db1", r)
	if err := bad.Record(t.Context(), &Verification{Time: began, Level: "read", Problems: []string{"block 3"}}); err != nil {
		t.Fatal(err)
	}
	job{stream: stream, started: began.Add(3 * time.Hour)}.mustRun(t, "db1", r)
	damaged := sink.objects["db1/20261130T210102Z-full/"+ManifestObject]
	damaged[len(damaged)/2] ^= 1
	sink.put("db1/20261130T220102Z-full/data.0001.xbs", []byte("half"))
	good := job{stream: stream}.mustRun(t, "db2", r)
	if err := good.Record(t.Context(), &Verification{Time: began, Level: "hash", OK: true}); err != nil {
		t.Fatal(err)
	}
	// What else may lie around.
	for _, name := range []string{"README", "db1/notes.txt", "db1/latest/manifest.json", "db3/20261130T180102Z-full", "a/b/c/d/manifest.json",
		"db1/20261130T230102Z-full.tmp/manifest.json", "my server/20261130T230102Z-full/manifest.json", "db1/20261130T180102Z-full/sub/manifest.json",
		"db1/20261130T180102Z-full/manifest.json~", "db1/20261130T180102Z-full/data.0001.xbs.bak"} {
		sink.put(name, []byte("{}"))
	}
	return r, sink
}

func TestList(t *testing.T) {
	r, _ := filled(t)
	for _, test := range []struct {
		server string
		want   []string
	}{
		{"db1", []string{
			"db1/20261130T180102Z-full complete manifest",
			"db1/20261130T190102Z-incr warning manifest",
			"db1/20261130T200102Z-full bad manifest verified",
			"db1/20261130T210102Z-full bad error",
			"db1/20261130T220102Z-full incomplete",
		}},
		{"db2", []string{"db2/20261130T180102Z-full complete manifest verified"}},
		{"", []string{
			"db1/20261130T180102Z-full complete manifest",
			"db2/20261130T180102Z-full complete manifest verified",
			"db1/20261130T190102Z-incr warning manifest",
			"db1/20261130T200102Z-full bad manifest verified",
			"db1/20261130T210102Z-full bad error",
			"db1/20261130T220102Z-full incomplete",
		}},
		{"db", nil}, // no prefix of a name is one
		{"none", nil},
	} {
		list, err := r.List(t.Context(), test.server)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range list {
			line := fmt.Sprintf("%s/%s %s", b.Server, b.ID, b.State)
			if b.Manifest != nil {
				line += " manifest"
			}
			if b.Verified != nil {
				line += " verified"
			}
			if b.Err != nil {
				line += " error"
			}
			if b.Usable() != (b.State == Complete || b.State == Warning) || b.Repository != r {
				t.Errorf("%s: usable %v", line, b.Usable())
			}
			got = append(got, line)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("server %q:\ngot  %q\nwant %q", test.server, got, test.want)
		}
	}
}

func TestServers(t *testing.T) {
	r, _ := filled(t)
	got, err := r.Servers(t.Context())
	if want := []string{"db1", "db2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestFind(t *testing.T) {
	r, sink := filled(t)
	for _, test := range []struct {
		server, ref, want string
		err               error
	}{
		{"db1", "20261130T180102Z-full", "db1/20261130T180102Z-full", nil},
		{"db1", "20261130T1801", "db1/20261130T180102Z-full", nil},
		{"db1", "20261130T19", "db1/20261130T190102Z-incr", nil},
		{"db1", "20261130T2001", "db1/20261130T200102Z-full", nil}, // bad ones are found by name
		{"db1", "20261130T2101", "db1/20261130T210102Z-full", nil},
		{"db1", "2", "", ErrAmbiguous},
		{"db1", "20261130T1", "", ErrAmbiguous},
		{"", "20261130T1801", "", ErrAmbiguous}, // of two servers
		{"", "20261130T180102Z-full", "", ErrAmbiguous},
		{"", "20261130T19", "db1/20261130T190102Z-incr", nil},
		{"db1", "20261130T22", "", ErrNoBackup}, // incomplete
		{"db1", "2025", "", ErrNoBackup},
		{"db1", "", "", ErrNoBackup},
		{"db1", "LATEST", "", ErrNoBackup},
		{"none", "2", "", ErrNoBackup},
		{"db1", "../db2", "", ErrNoBackup},
		{"../db1", "2", "", ErrServerName},
		{"db1/20261130T180102Z-full", "2", "", ErrServerName},
		{"db1", Latest, "db1/20261130T190102Z-incr", nil}, // the newer ones are bad or incomplete
		{"db2", Latest, "db2/20261130T180102Z-full", nil},
		{"", Latest, "", ErrAmbiguous},
		{"none", Latest, "", ErrNoBackup},
	} {
		b, err := r.Find(t.Context(), test.server, test.ref)
		got := ""
		if err == nil {
			got = b.Server + "/" + b.ID
		}
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q of %q: got %q and error %v, want %q and %v", test.ref, test.server, got, err, test.want, test.err)
		}
	}
	for _, name := range sink.names("db1/") {
		delete(sink.objects, name)
	}
	if b, err := r.Find(t.Context(), "", Latest); err != nil || b.Server != "db2" {
		t.Errorf("latest of the only server: got %+v, error %v", b, err)
	}
}

// TestLatestTellsWhatItSkipped: "no such backup" alone would not help.
func TestLatestTellsWhatItSkipped(t *testing.T) {
	r, sink := filled(t)
	for _, name := range sink.names("db1/20261130T1") {
		delete(sink.objects, name)
	}
	_, err := r.Find(t.Context(), "db1", Latest)
	if !errors.Is(err, ErrNoBackup) || !strings.Contains(err.Error(), "20261130T200102Z-full is bad") {
		t.Errorf("got error %v, want one that names the bad backup", err)
	}
}

// TestLoadFaults: not being able to look is an error; what is gone is not there.
func TestLoadFaults(t *testing.T) {
	r, sink := filled(t)
	const manifests = "*/*/" + ManifestObject
	for _, fault := range []faulty.Fault{
		{Op: faulty.List, Err: errBoom}, {Op: faulty.Open, Pattern: manifests, Err: errBoom}, {Op: faulty.ReadAt, Pattern: manifests, Err: errBoom},
	} {
		bad := through(r, faulty.New(fault).Wrap(sink))
		if _, err := bad.List(t.Context(), "db1"); !errors.Is(err, errBoom) {
			t.Errorf("List with a fault in %s: got error %v, want %v", fault.Op, err, errBoom)
		}
		if _, err := bad.Find(t.Context(), "db1", Latest); !errors.Is(err, errBoom) {
			t.Errorf("Find with a fault in %s: got error %v, want %v", fault.Op, err, errBoom)
		}
	}
	if _, err := through(r, faulty.New(faulty.Fault{Op: faulty.List, Err: errBoom}).Wrap(sink)).Servers(t.Context()); !errors.Is(err, errBoom) {
		t.Errorf("Servers: got error %v, want %v", err, errBoom)
	}
	gone := through(r, faulty.New(faulty.Fault{Op: faulty.Open, Pattern: "db1/20261130T18*/" + ManifestObject, Err: fs.ErrNotExist}).Wrap(sink))
	list, err := gone.List(t.Context(), "db1")
	if err != nil || len(list) != 5 || list[0].State != Incomplete {
		t.Errorf("with a manifest that was removed meanwhile: got %d backups, error %v", len(list), err)
	}
	sink.put("db1/20261130T180102Z-full/"+ManifestObject, make([]byte, maxManifest+1))
	b, err := r.Find(t.Context(), "db1", beganID)
	if err != nil || b.State != Bad || !errors.Is(b.Err, ErrManifest) {
		t.Errorf("with a huge manifest: got %+v, error %v", b, err)
	}
}

// TestManifestOfAnother: a folder that was copied or renamed by hand is not what its name says.
func TestManifestOfAnother(t *testing.T) {
	r, sink := filled(t)
	for _, place := range []string{"db9/" + beganID, "db2/20261130T230000Z-full"} {
		sink.put(place+"/"+ManifestObject, sink.objects["db2/"+beganID+"/"+ManifestObject])
		server, id, _ := strings.Cut(place, "/")
		b, err := r.Find(t.Context(), server, id)
		if err != nil || b.State != Bad || b.Manifest != nil || !errors.Is(b.Err, ErrManifest) {
			t.Errorf("%s: got %+v, error %v; want it bad", place, b, err)
		}
	}
}

// TestVerification: a record is kept, replaced, and counts for one manifest only.
func TestVerification(t *testing.T) {
	r, sink := filled(t)
	b, err := r.Find(t.Context(), "db2", Latest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := b.ReadManifest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Verification{Time: began, Level: "hash", OK: true, Problems: []string{}, Manifest: sumOf(manifest)}
	if got := b.Verified; got.Manifest != want.Manifest || got.Level != want.Level || !got.Time.Equal(want.Time) || !got.OK {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// A later check replaces it, and makes the backup bad.
	if err := b.Record(t.Context(), &Verification{Time: began.Add(time.Hour), Level: "read", Problems: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if b, err = r.Find(t.Context(), "db2", beganID); err != nil || b.State != Bad || b.Verified.Level != "read" {
		t.Errorf("got %+v (%v), want a bad backup", b, err)
	}
	// A record that is about another manifest counts for nothing.
	if err := b.Record(t.Context(), &Verification{Time: began, Level: "read", OK: true, Manifest: strings.Repeat("0", 64)}); err != nil {
		t.Fatal(err)
	}
	if b, err = r.Find(t.Context(), "db2", beganID); err != nil || b.State != Complete || b.Verified != nil || b.Err == nil {
		t.Errorf("got %+v (%v), want an unverified backup", b, err)
	}
	delete(sink.objects, "db2/"+beganID+"/"+ManifestObject)
	if err := b.Record(t.Context(), &Verification{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a manifest: got error %v", err)
	}
}

// plain is a sink with no more than it must have.
type plain struct{ sinks.Sink }

func TestSinkThatCantReplace(t *testing.T) {
	r, sink := filled(t)
	b, err := through(r, plain{sink}).Find(t.Context(), "db2", Latest)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Record(t.Context(), &Verification{}); err == nil {
		t.Error("got no error")
	}
}

// TestDamagedIndexObject flips every byte of a stored index, cuts it, and puts another backup's in its place.
func TestDamagedIndexObject(t *testing.T) {
	sink := newMemory()
	r := repositories(t, sink)[0]
	stream := mariadbStream(t)
	b := job{stream: stream}.mustRun(t, "db1", r)
	name := join("db1", b.ID, b.Manifest.Index.Name)
	good := sink.objects[name]
	check := func(what string, data []byte) {
		t.Helper()
		sink.objects[name] = data
		if _, err := b.Index(t.Context()); !errors.Is(err, ErrIndex) {
			t.Errorf("%s: got error %v, want %v", what, err, ErrIndex)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x40
		check(fmt.Sprint("flipped byte ", i), bad)
		check(fmt.Sprint("cut at ", i), good[:i])
	}
	check("a byte more", append(bytes.Clone(good), 0))
	check("twice", append(bytes.Clone(good), good...))
	var other IndexBuilder // of a stream of the same size, in one volume
	other.Block(cutOne(int64(len(stream))))
	packed, err := compressIndex(other.Encode())
	if err != nil {
		t.Fatal(err)
	}
	check("another index", packed)
	// What the manifest says may be wrong too.
	sink.objects[name] = packed
	b.Manifest.Index = Object{b.Manifest.Index.Name, int64(len(packed)), sumOf(packed)}
	if _, err := b.Index(t.Context()); err != nil {
		t.Errorf("an index that the manifest vouches for: %v", err)
	}
	b.Manifest.RawBytes++
	check("of another size", packed)
	b.Manifest.RawBytes--
	b.Manifest.Volumes = append(b.Manifest.Volumes, Object{})
	check("of fewer volumes", packed)

	b.Manifest.Encrypted = true
	var locked *KeyError
	if _, err := b.Index(t.Context()); !errors.As(err, &locked) {
		t.Errorf("an encrypted backup: got error %v, want a %T", err, locked)
	}
	b.Manifest.Encrypted = false

	broken := *b
	broken.Repository = through(r, faulty.New(faulty.Fault{Op: faulty.ReadAt, Err: errBoom}).Wrap(sink))
	if _, err := broken.Index(t.Context()); !errors.Is(err, errBoom) || errors.Is(err, ErrIndex) {
		t.Errorf("an index that can't be read: got error %v, want %v and not %v", err, errBoom, ErrIndex)
	}
	delete(sink.objects, name)
	if _, err := b.Index(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no index: got error %v, want %v", err, fs.ErrNotExist)
	}
}

func TestStoredVolumes(t *testing.T) {
	sink := newMemory()
	r := repositories(t, sink)[0]
	b := job{stream: longStream(t), volumes: 4096}.mustRun(t, "db1", r)
	if len(b.Manifest.Volumes) < 3 {
		t.Fatalf("got %d volumes, want several", len(b.Manifest.Volumes))
	}
	v := b.StoredVolumes(t.Context())
	for n := range b.Manifest.Volumes {
		for range 2 { // the second time it is open already
			if _, err := v.At(n + 1); err != nil {
				t.Errorf("volume %d: %v", n+1, err)
			}
		}
	}
	for _, n := range []int{-1, 0, len(b.Manifest.Volumes) + 1} {
		if _, err := v.At(n); !errors.Is(err, ErrIndex) {
			t.Errorf("volume %d: got error %v, want %v", n, err, ErrIndex)
		}
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	delete(sink.objects, join("db1", b.ID, b.Manifest.Volumes[0].Name))
	if _, err := v.At(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a volume that is gone: got error %v, want %v", err, fs.ErrNotExist)
	}
}
