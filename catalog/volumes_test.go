package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// open returns the backup, unlocked.
func (e *encryptedBackup) open(t testing.TB) *Backup {
	t.Helper()
	b := e.find(t)
	if err := b.Unlock(t.Context(), e.ids); err != nil {
		t.Fatal(err)
	}
	return b
}

// bigEncrypted is a backup with one volume of several chunks of age.
func bigEncrypted(t testing.TB) *encryptedBackup {
	t.Helper()
	m := newMaker(t)
	for i := range 5 {
		m.file(fmt.Sprintf("db/t%d.ibd", i), 60_000)
	}
	m.file("xtrabackup_info", 20)
	e := &encryptedBackup{sink: newMemory(), job: job{stream: m.data.Bytes()}.sealed(t)}
	e.r = repositories(t, e.sink)[0]
	e.id = e.mustRun(t, "db1", e.r).ID
	e.folder = "db1/" + e.id + "/"
	return e
}

func TestOpenVolume(t *testing.T) {
	job{stream: longStream(t), volumes: 4096}.plainAndSealed(t, func(t *testing.T, j job) {
		sink := newMemory()
		b := j.mustRun(t, "db1", repositories(t, sink)...)
		var all []byte
		for n := range b.Manifest.Volumes {
			v, err := b.OpenVolume(t.Context(), n+1)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(io.NewSectionReader(v, 0, v.Size()))
			if err != nil || int64(len(data)) != v.Size() {
				t.Errorf("volume %d: got %d of %d bytes (%v)", n+1, len(data), v.Size(), err)
			}
			if err := v.Close(); err != nil {
				t.Error(err)
			}
			all = append(all, data...)
		}
		if !bytes.Equal(all, j.stream) {
			t.Errorf("got %d bytes, want %d", len(all), len(j.stream))
		}
		if err := b.CheckVolumes(t.Context()); err != nil {
			t.Error(err)
		}
		for _, n := range []int{-1, 0, len(b.Manifest.Volumes) + 1} {
			if _, err := b.OpenVolume(t.Context(), n); !errors.Is(err, ErrIndex) {
				t.Errorf("volume %d: got error %v, want %v", n, err, ErrIndex)
			}
		}
		name := join("db1", b.ID, b.Manifest.Volumes[1].Name)
		good := sink.objects[name]
		for what, data := range map[string][]byte{"cut": good[:len(good)-1], "longer": append(bytes.Clone(good), 0), "empty": {}} {
			sink.objects[name] = data
			_, err := b.OpenVolume(t.Context(), 2)
			if !errors.Is(err, ErrVolume) || !errors.Is(err, pipeline.ErrBlock) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got error %v, want %v", what, err, ErrVolume)
			}
			if err := b.CheckVolumes(t.Context()); !errors.Is(err, ErrVolume) {
				t.Errorf("%s: check: got error %v, want %v", what, err, ErrVolume)
			}
		}
		delete(sink.objects, name)
		if err := b.CheckVolumes(t.Context()); !errors.Is(err, ErrMissing) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("gone: got error %v, want %v", err, ErrMissing)
		}
	})
}

// TestDamagedSeal flips bytes of a sealed volume: those of its head and of its last chunk are found when it is opened, the
// others when they are read.
func TestDamagedSeal(t *testing.T) {
	e := bigEncrypted(t)
	b := e.open(t)
	name := b.Manifest.Volumes[0].Name
	good := e.object(name)
	first, err := b.OpenVolume(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	head := first.(plainObject).StoredOffset(0)
	const chunk = 64<<10 + 16
	last := head + (int64(len(good))-head-1)/chunk*chunk
	if head < 100 || head > 1000 || last <= head+chunk {
		t.Fatalf("the chunks are from %d to %d of %d", head, last, len(good))
	}
	for _, at := range []int64{0, 1, 20, 50, head - 20, head - 1, head, head + 100, last - 1, last, last + 1, int64(len(good)) - 1} {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		e.put(name, bad)
		v, err := b.OpenVolume(t.Context(), 1)
		// A nonce, the last 16 bytes before the first chunk, can't be told from a chunk: it makes the last one wrong.
		if atOpen := at < head || at >= last; (err != nil) != atOpen {
			t.Errorf("byte %d of %d: opened with error %v", at, len(good), err)
		}
		if err == nil {
			_, err = io.ReadAll(io.NewSectionReader(v, 0, v.Size()))
		} else if !errors.Is(err, ErrVolume) {
			t.Errorf("byte %d: got error %v, want %v", at, err, ErrVolume)
		}
		if !errors.Is(err, encrypt.ErrDamaged) {
			t.Errorf("byte %d: got error %v, want %v", at, err, encrypt.ErrDamaged)
		}
	}
}

// TestSalvage reads what is in front of, and behind, the damage.
func TestSalvage(t *testing.T) {
	e := bigEncrypted(t)
	b := e.open(t)
	name := b.Manifest.Volumes[0].Name
	good := e.object(name)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	headless := bytes.Clone(good)
	headless[30] ^= 1
	for _, test := range []struct {
		name  string
		data  []byte
		sound int // bytes of plaintext that can be had from the beginning; -1: it can't be opened
	}{
		{"last chunk damaged", flipped, 4 * 64 << 10},
		{"cut in the last chunk", good[:len(good)-20], 4 * 64 << 10},
		{"cut in half", good[:len(good)/2], 2 * 64 << 10},
		{"longer", append(bytes.Clone(good), make([]byte, 1000)...), 4 * 64 << 10},
		{"head damaged", headless, -1},
		{"empty", nil, -1},
	} {
		e.put(name, test.data)
		strict := b.StoredVolumes(t.Context())
		for range 2 { // the second time from memory
			if _, err := strict.At(1); !errors.Is(err, ErrVolume) {
				t.Errorf("%s: strictly: got error %v, want %v", test.name, err, ErrVolume)
			}
		}
		volumes := b.StoredVolumes(t.Context())
		volumes.Salvage = true
		v, err := volumes.At(1)
		if test.sound < 0 {
			if !errors.Is(err, ErrVolume) || !errors.Is(err, encrypt.ErrDamaged) || volumes.Stored(1, 5) != -1 {
				t.Errorf("%s: got error %v, want %v", test.name, err, ErrVolume)
			}
		} else if err != nil {
			t.Errorf("%s: %v", test.name, err)
		} else {
			got := make([]byte, test.sound)
			if _, err := v.ReadAt(got, 0); err != nil || !bytes.Equal(got, e.stream[:test.sound]) {
				t.Errorf("%s: the first %d bytes: %v", test.name, test.sound, err)
			}
			if _, err := v.ReadAt(make([]byte, len(e.stream)), 0); err == nil {
				t.Errorf("%s: all of it was read", test.name)
			}
		}
		if err := errors.Join(strict.Close(), volumes.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestSalvagePlain: volumes of another size are opened as they are.
func TestSalvagePlain(t *testing.T) {
	sink := newMemory()
	b := job{stream: longStream(t)}.mustRun(t, "db1", repositories(t, sink)...)
	name := join("db1", b.ID, b.Manifest.Volumes[0].Name)
	sink.objects[name] = sink.objects[name][:100]
	volumes := b.StoredVolumes(t.Context())
	defer volumes.Close()
	volumes.Salvage = true
	v, err := volumes.At(1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := v.ReadAt(make([]byte, 200), 0); n != 100 || err != io.EOF {
		t.Errorf("got %d bytes (%v), want 100", n, err)
	}
	if got := volumes.Stored(1, 77); got != 77 {
		t.Errorf("place of byte 77: got %d", got)
	}
}

// TestStoredPlaces: the chunk of age that holds a byte is where Stored says.
func TestStoredPlaces(t *testing.T) {
	e := bigEncrypted(t)
	b := e.open(t)
	volumes := b.StoredVolumes(t.Context())
	defer volumes.Close()
	head := volumes.Stored(1, 0)
	for plain, want := range map[int64]int64{0: head, 65535: head, 65536: head + 65552, 200_000: head + 3*65552} {
		if got := volumes.Stored(1, plain); got != want {
			t.Errorf("byte %d: got %d, want %d", plain, got, want)
		}
	}
	name := b.Manifest.Volumes[0].Name
	e.object(name)[volumes.Stored(1, 70_000)] ^= 1
	v, err := b.OpenVolume(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for plain, ok := range map[int64]bool{0: true, 65535: true, 65536: false, 70_000: false, 131071: false, 131072: true} {
		if _, err := v.ReadAt(make([]byte, 1), plain); (err == nil) != ok {
			t.Errorf("byte %d: got error %v", plain, err)
		}
	}
}

// TestVolumesThatCantBeRead: a place that fails is no damage, and is asked again.
func TestVolumesThatCantBeRead(t *testing.T) {
	e := newEncrypted(t)
	for _, op := range []faulty.Op{faulty.Open, faulty.ReadAt} {
		b := e.open(t)
		b.Repository = through(e.r, faulty.New(faulty.Fault{Op: op, Count: 1, Err: errBoom}).Wrap(e.sink))
		for _, salvage := range []bool{false, true} {
			volumes := b.StoredVolumes(t.Context())
			volumes.Salvage = salvage
			_, err := volumes.At(1)
			if !salvage && (!errors.Is(err, errBoom) || errors.Is(err, ErrVolume) || errors.Is(err, encrypt.ErrDamaged)) {
				t.Errorf("%s: got error %v, want %v", op, err, errBoom)
			}
			if _, err := volumes.At(1); err != nil {
				t.Errorf("%s: the second time: %v", op, err)
			}
			if err := volumes.Close(); err != nil {
				t.Error(err)
			}
		}
		b.Repository = through(e.r, faulty.New(faulty.Fault{Op: op, Count: 1, Err: errBoom}).Wrap(e.sink))
		if _, err := b.OpenPlain(t.Context(), b.Manifest.Log.Name); !errors.Is(err, errBoom) {
			t.Errorf("%s of the log: got error %v, want %v", op, err, errBoom)
		}
	}
}
