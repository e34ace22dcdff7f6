package verify

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mbwrap/mbwrap/catalog"
	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/pipeline"
)

// vault is an encrypted backup.
type vault struct {
	repository *catalog.Repository
	dir        string
	id         string
	key        *encrypt.Key
	ids        *encrypt.Identities
	raw        []byte
}

// identities returns a new identity and its recipient.
func identities(t testing.TB) (*encrypt.Identities, *encrypt.Recipients) {
	t.Helper()
	secret, public, err := encrypt.Generate(false)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encrypt.ReadIdentities(strings.NewReader(secret+"\n"), encrypt.IdentityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := encrypt.ParseRecipients(public)
	if err != nil {
		t.Fatal(err)
	}
	return ids, to
}

// seal files raw as an encrypted backup.
func seal(t testing.TB, raw []byte, o made) *vault {
	t.Helper()
	ids, to := identities(t)
	key, err := encrypt.NewKey(false)
	if err != nil {
		t.Fatal(err)
	}
	r, dir, b := filed(t, raw, o, catalog.BeginOptions{Key: key, Recipients: to})
	return &vault{repository: r, dir: dir, id: b.ID, key: key, ids: ids, raw: raw}
}

// sealedBackup is an encrypted backup of three volumes of a few pieces of age and many blocks each.
func sealedBackup(t testing.TB) *vault {
	t.Helper()
	raw := wholeStream(t, file{"db/t.MAD", letters(200_000)}, file{"db/u.MYD", letters(700_000)}, file{"db/v.CSV", letters(90_000)})
	return seal(t, raw, made{codec: "zstd", blockSize: 32 << 10, volumeSize: 200_000})
}

// locked finds the backup anew, open returns it unlocked.
func (v *vault) locked(t testing.TB) *catalog.Backup {
	t.Helper()
	return again(t, v.repository, v.id)
}

func (v *vault) open(t testing.TB) *catalog.Backup {
	t.Helper()
	b := v.locked(t)
	if err := b.Unlock(t.Context(), v.ids); err != nil && b.Locked() {
		t.Fatal(err)
	}
	return b
}

func (v *vault) index(t testing.TB) *catalog.Index {
	t.Helper()
	index, err := v.open(t).Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func (v *vault) read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(v.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (v *vault) write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(v.dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// flip changes one bit.
func (v *vault) flip(t testing.TB, name string, at int64) {
	t.Helper()
	data := v.read(t, name)
	data[at] ^= 0x10
	v.write(t, name, data)
}

// sealed is where the parts of an age file begin.
type sealed struct{ stanza, body, mac, nonce, payload, size int64 }

func partsOf(t testing.TB, data []byte) sealed {
	t.Helper()
	var s sealed
	s.stanza = int64(bytes.Index(data, []byte("\n-> "))) + 4
	s.body = s.stanza + int64(bytes.IndexByte(data[s.stanza:], '\n')) + 1
	s.mac = int64(bytes.Index(data, []byte("\n--- "))) + 5
	s.nonce = s.mac + int64(bytes.IndexByte(data[s.mac:], '\n')) + 1
	s.payload, s.size = s.nonce+16, int64(len(data))
	if s.stanza < 10 || s.mac < s.body || s.payload >= s.size {
		t.Fatalf("no age file: %+v", s)
	}
	return s
}

// find returns the problems of an object.
func find(r *Report, object string) []Problem {
	return slices.DeleteFunc(slices.Clone(r.Problems), func(p Problem) bool { return p.Object != object })
}

func TestSealedBackupIsGood(t *testing.T) {
	v := sealedBackup(t)
	b := v.locked(t)
	if len(b.Manifest.Volumes) != 3 {
		t.Fatalf("got %d volumes, want 3", len(b.Manifest.Volumes))
	}
	if r := run(t, b, Hash); !r.OK || r.Objects != 3+2+1 || !r.Encrypted || r.Restorable != RestorableAll {
		t.Errorf("hash, locked: got %+v, want it good with 6 objects", r)
	}
	for _, l := range []Level{Hash, Read, Pages} {
		r := run(t, v.open(t), l)
		if !r.OK || r.Restorable != RestorableAll {
			t.Errorf("%s: got %v", l, r.Problems)
		}
		if l != Hash && (r.RawBytes != int64(len(v.raw)) || r.Files != 6 || r.IntactFiles != 6) {
			t.Errorf("%s: got %d bytes in %d files, %d intact, want %d in 6", l, r.RawBytes, r.Files, r.IntactFiles, len(v.raw))
		}
	}
}

func TestDeeperLevelsWantTheKey(t *testing.T) {
	v := sealedBackup(t)
	other, _ := identities(t)
	wrong := v.locked(t)
	if err := wrong.Unlock(t.Context(), other); !errors.Is(err, encrypt.ErrNoMatch) {
		t.Fatalf("unlock with a wrong key: got %v", err)
	}
	for name, b := range map[string]*catalog.Backup{"no key": v.locked(t), "wrong key": wrong} {
		for _, o := range []Options{{Level: Read}, {Level: Pages}, {Level: Hash, Sample: 0.5}, {Level: Restore, Trial: TrialOptions{Dir: t.TempDir()}}} {
			_, err := Run(t.Context(), b, o)
			missing, ok := errors.AsType[*catalog.KeyError](err)
			if !ok || !slices.Equal(missing.Recipients, b.Recipients()) {
				t.Errorf("%s, %s of %v: got %v, want that the key is missing", name, o.Level, o.Sample, err)
			}
		}
		if r := run(t, b, Hash); !r.OK {
			t.Errorf("%s, hash: got %v", name, r.Problems)
		}
	}
	both := v.locked(t)
	if err := both.Unlock(t.Context(), other.With(v.ids)); err != nil {
		t.Fatalf("right key second: %v", err)
	}
	if r := run(t, both, Read); !r.OK {
		t.Errorf("right key second: got %v", r.Problems)
	}
}

// TestEveryClassOfBits flips a bit of every kind of which an encrypted backup is made. Level hash finds each without a key.
func TestEveryClassOfBits(t *testing.T) {
	const volume = "data.0002.xbs.zst.age"
	at := func(f func(sealed) int64) func(testing.TB, []byte) int64 {
		return func(t testing.TB, data []byte) int64 { return f(partsOf(t, data)) }
	}
	tests := []struct {
		name, object string
		at           func(t testing.TB, data []byte) int64
		stored       int64 // StoredOffset that level read says, behind the header of the age file; -1: the whole object
		keyless      bool  // the key can't be had any more, so that only level hash can look
	}{
		{"age header", volume, func(testing.TB, []byte) int64 { return 3 }, -1, false},
		{"stanza", volume, at(func(s sealed) int64 { return s.stanza + 2 }), -1, false},
		{"stanza body", volume, at(func(s sealed) int64 { return s.body + 2 }), -1, false},
		{"header code", volume, at(func(s sealed) int64 { return s.mac + 2 }), -1, false},
		{"nonce", volume, at(func(s sealed) int64 { return s.nonce + 2 }), 0, false},
		{"body", volume, at(func(s sealed) int64 { return s.payload + 65552 + 1000 }), 65552, false},
		{"tag", volume, at(func(s sealed) int64 { return s.payload + 65552 + 65536 + 3 }), 65552, false},
		{"last tag", volume, at(func(s sealed) int64 { return s.size - 1 }), 3 * 65552, false},
		{"index", "index.zst.age", at(func(s sealed) int64 { return s.payload + 10 }), -1, false},
		{"index header", "index.zst.age", at(func(s sealed) int64 { return s.stanza + 2 }), -1, false},
		{"log", "backup.log.zst.age", at(func(s sealed) int64 { return s.payload + 2 }), -1, false},
		{"manifest", catalog.ManifestObject, func(_ testing.TB, data []byte) int64 { return int64(len(data) / 2) }, -1, true},
		{"code of the manifest", catalog.ManifestObject, func(_ testing.TB, data []byte) int64 { return int64(len(data) - 90) }, -1, true},
		{"sums", catalog.SumsObject, func(testing.TB, []byte) int64 { return 70 }, -1, false},
		{"key.age", catalog.KeyObject, at(func(s sealed) int64 { return s.payload + 2 }), -1, true},
		{"header of key.age", catalog.KeyObject, at(func(s sealed) int64 { return s.stanza + 2 }), -1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := sealedBackup(t)
			good := v.read(t, tt.object)
			v.flip(t, tt.object, tt.at(t, good))
			r := run(t, v.locked(t), Hash)
			if found := find(r, tt.object); r.OK || len(found) == 0 || len(found) != len(r.Problems) {
				t.Fatalf("hash: got %v, want problems of %s only", r.Problems, tt.object)
			}
			if tt.keyless {
				return
			}
			want := tt.stored
			if want >= 0 {
				want += partsOf(t, good).payload
			}
			r = run(t, v.open(t), Read)
			found := find(r, tt.object)
			if r.OK || !slices.ContainsFunc(found, func(p Problem) bool { return p.StoredOffset == want }) {
				t.Errorf("read: got %v, want a problem of %s at stored offset %d", r.Problems, tt.object, want)
			}
			for _, p := range r.Problems {
				if p.Object != tt.object {
					t.Errorf("read: got problem %v of another object", p)
				}
			}
		})
	}
}

// TestDamagedPieceOfAge: the damage is told by the piece of age, the block and the raw offset, and nothing else is lost.
func TestDamagedPieceOfAge(t *testing.T) {
	const volume = "data.0002.xbs.zst.age"
	v := sealedBackup(t)
	parts := partsOf(t, v.read(t, volume))
	v.flip(t, volume, parts.payload+65552+30_000)
	var want []int64
	var lost, first pipeline.Block
	number := int64(0)
	for b := range v.index(t).AllBlocks() {
		if b.Volume == 2 && b.Stored < 2*65536 && b.Stored+b.StoredSize > 65536 {
			if len(want) == 0 {
				first = b
			}
			want, lost = append(want, number), b
		}
		number++
	}
	r := run(t, v.open(t), Read)
	var got []int64
	for _, p := range find(r, volume) {
		if p.Block < 0 {
			continue
		}
		got = append(got, p.Block)
		if p.StoredOffset != parts.payload+65552 {
			t.Errorf("block %d: got stored offset %d, want that of the second piece, %d", p.Block, p.StoredOffset, parts.payload+65552)
		}
		if !slices.Equal(p.Files, []string{"db/u.MYD"}) || !slices.Equal(p.Tables, []string{"db.u"}) {
			t.Errorf("block %d: got files %q and tables %q", p.Block, p.Files, p.Tables)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got damaged blocks %v, want %v", got, want)
	}
	if p := find(r, volume); p[len(p)-1].RawOffset != lost.Raw && p[len(p)-2].RawOffset != lost.Raw {
		t.Errorf("got %v, want the last one at raw offset %d", p, lost.Raw)
	}
	if all := int64(len(v.raw)) - (lost.Raw + lost.RawSize - first.Raw); r.RawBytes != all {
		t.Errorf("got %d bytes decoded, want all others, %d", r.RawBytes, all)
	}
	if r.LostFiles != 1 || r.Lost[0].Path != "db/u.MYD" || r.Lost[0].Table != "db.u" || r.IntactFiles != 5 {
		t.Errorf("got lost %+v and %d intact files, want db/u.MYD lost and 5 intact", r.Lost, r.IntactFiles)
	}
}

// TestBrokenEnd: what stands in front of the end that is missing is read.
func TestBrokenEnd(t *testing.T) {
	const volume = "data.0003.xbs.zst.age"
	tests := []struct {
		name   string
		damage func(data []byte, s sealed) []byte
		keep   int64 // bytes of plaintext that are intact
	}{
		{"last piece cut off", func(data []byte, s sealed) []byte {
			return data[:s.payload+(s.size-s.payload)/65552*65552]
		}, -1},
		{"one byte cut off", func(data []byte, s sealed) []byte { return data[:s.size-1] }, -1},
		{"cut in the first piece", func(data []byte, s sealed) []byte { return data[:s.payload+1000] }, 0},
		{"cut in the header", func(data []byte, s sealed) []byte { return data[:s.mac] }, 0},
		{"empty", func([]byte, sealed) []byte { return nil }, 0},
		{"bytes appended", func(data []byte, s sealed) []byte { return append(slices.Clone(data), "more"...) }, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := sealedBackup(t)
			data := v.read(t, volume)
			s := partsOf(t, data)
			keep := tt.keep
			if keep < 0 {
				keep = (s.size - s.payload) / 65552 * 65536
			}
			var want int64
			for b := range v.index(t).AllBlocks() {
				if b.Volume < 3 || b.Stored+b.StoredSize <= keep {
					want += b.RawSize
				}
			}
			v.write(t, volume, tt.damage(data, s))
			if r := run(t, v.locked(t), Hash); r.OK || len(find(r, volume)) != 1 || len(r.Problems) != 1 {
				t.Errorf("hash: got %v, want one problem of %s", r.Problems, volume)
			}
			r := run(t, v.open(t), Read)
			if r.OK || len(find(r, volume)) != len(r.Problems) {
				t.Errorf("read: got %v, want problems of %s only", r.Problems, volume)
			}
			if r.RawBytes != want {
				t.Errorf("read: got %d bytes decoded, want what stands in front, %d", r.RawBytes, want)
			}
		})
	}
}

// TestResealedFrame: whoever holds the backup's key can seal anything. The frame's own sums find that.
func TestResealedFrame(t *testing.T) {
	const volume = "data.0002.xbs.zst.age"
	v := sealedBackup(t)
	blocks := slices.Collect(v.index(t).Blocks(0, 1<<40))
	number := slices.IndexFunc(blocks, func(b pipeline.Block) bool { return b.Volume == 2 }) + 3
	data := v.read(t, volume)
	plain, err := v.key.OpenAt(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, plain.Size())
	if _, err := plain.ReadAt(text, 0); err != nil {
		t.Fatal(err)
	}
	hit := blocks[number]
	text[hit.Stored+hit.StoredSize/2] ^= 1
	var sealed bytes.Buffer
	w, err := v.key.Seal(&sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	v.write(t, volume, sealed.Bytes())
	r := run(t, v.open(t), Read)
	found := find(r, volume)
	i := slices.IndexFunc(found, func(p Problem) bool { return p.Block == int64(number) })
	if len(found) != 2 || i < 0 || found[i].Offset != hit.Stored || found[i].RawOffset != hit.Raw {
		t.Errorf("got %v, want the sum and block %d at %d", r.Problems, number, hit.Stored)
	}
}

// TestMixedBackups: parts of other backups, and parts in the wrong place, are found out.
func TestMixedBackups(t *testing.T) {
	read := func(t testing.TB, v *vault) *Report { return run(t, v.open(t), Read) }
	swap := func(t testing.TB, a, b *vault, name, other string) {
		one, two := a.read(t, name), b.read(t, other)
		a.write(t, name, two)
		b.write(t, other, one)
	}
	t.Run("volumes swapped", func(t *testing.T) {
		v := sealedBackup(t)
		swap(t, v, v, "data.0001.xbs.zst.age", "data.0002.xbs.zst.age")
		for _, r := range []*Report{run(t, v.locked(t), Hash), read(t, v)} {
			if len(find(r, "data.0001.xbs.zst.age")) == 0 || len(find(r, "data.0002.xbs.zst.age")) == 0 {
				t.Errorf("%s: got %v", r.Level, r.Problems)
			}
		}
	})
	t.Run("indexes swapped", func(t *testing.T) {
		v, w := sealedBackup(t), sealedBackup(t)
		swap(t, v, w, "index.zst.age", "index.zst.age")
		for _, r := range []*Report{run(t, v.locked(t), Hash), read(t, v), run(t, w.locked(t), Hash), read(t, w)} {
			if len(find(r, "index.zst.age")) == 0 || len(find(r, "index.zst.age")) != len(r.Problems) {
				t.Errorf("%s: got %v", r.Level, r.Problems)
			}
			if r.Level == Read && (r.RawBytes != int64(len(v.raw)) || r.Restorable != RestorableAll || r.IntactFiles != 6) {
				t.Errorf("read: got %d bytes, %s, %d files intact, want that the data are found whole", r.RawBytes, r.Restorable, r.IntactFiles)
			}
		}
	})
	t.Run("all but the key of another backup", func(t *testing.T) {
		v, w := sealedBackup(t), sealedBackup(t)
		for _, name := range objects(t, w.dir) {
			if name != catalog.KeyObject {
				v.write(t, name, w.read(t, name))
			}
		}
		if r := run(t, v.locked(t), Hash); len(find(r, catalog.KeyObject)) != 1 {
			t.Errorf("hash: got %v", r.Problems)
		}
		r := read(t, v)
		if len(find(r, catalog.ManifestObject)) != 1 || r.Restorable != RestorableUnknown && r.Restorable != RestorableNothing {
			t.Errorf("read: got %v, %s", r.Problems, r.Restorable)
		}
	})
	t.Run("manifest with another code", func(t *testing.T) {
		v := sealedBackup(t)
		data := v.read(t, catalog.ManifestObject)
		data = bytes.Replace(data, []byte(`"host": "`), []byte(`"host": "x`), 1)
		v.write(t, catalog.ManifestObject, resum(data))
		if r := run(t, v.locked(t), Hash); !r.OK {
			t.Errorf("hash without a key: got %v: who has no key can't tell", r.Problems)
		}
		for _, l := range []Level{Hash, Read} {
			r := run(t, v.open(t), l)
			if found := find(r, catalog.ManifestObject); r.OK || len(found) != 1 || !strings.Contains(found[0].Message, "code") {
				t.Errorf("%s with the key: got %v", l, r.Problems)
			}
		}
	})
	t.Run("manifest of another backup", func(t *testing.T) {
		v, w := sealedBackup(t), sealedBackup(t)
		v.write(t, catalog.ManifestObject, w.read(t, catalog.ManifestObject))
		r := run(t, v.locked(t), Hash)
		for _, name := range []string{"data.0001.xbs.zst.age", "index.zst.age", catalog.KeyObject, catalog.SumsObject} {
			if len(find(r, name)) == 0 {
				t.Errorf("hash: got no problem of %s", name)
			}
		}
		if r := read(t, v); len(find(r, catalog.ManifestObject)) != 1 {
			t.Errorf("read: got %v", r.Problems)
		}
	})
}

// resum puts the right checksum at the end of a manifest, as anyone can.
func resum(data []byte) []byte {
	const head = ",\n  \"sha256\": \""
	body := data[:bytes.LastIndex(data, []byte(head))]
	return fmt.Appendf(slices.Clip(body), "%s%x\"\n}\n", head, sha256.Sum256(body))
}

// TestRekeyed: a backup with new recipients is good, before, during and after the change.
func TestRekeyed(t *testing.T) {
	v := sealedBackup(t)
	old := v.read(t, catalog.KeyObject)
	sums := v.read(t, catalog.SumsObject)
	ids, to := identities(t)
	if err := v.open(t).Rekey(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if r := run(t, v.locked(t), Hash); !r.OK || r.Objects != 6 {
		t.Errorf("hash: got %v", r.Problems)
	}
	renewed := *v
	renewed.ids = ids
	if r := run(t, renewed.open(t), Read); !r.OK {
		t.Errorf("read: got %v", r.Problems)
	}
	v.write(t, catalog.KeyObject, old)
	if r := run(t, v.locked(t), Hash); len(find(r, catalog.KeyObject)) != 1 {
		t.Errorf("old key.age: got %v, want that it is not the one", r.Problems)
	}
	v.write(t, catalog.SumsObject, sums)
	if r := run(t, v.locked(t), Hash); len(find(r, catalog.SumsObject)) != 1 {
		t.Errorf("old sums: got %v, want that they are not right", r.Problems)
	}
	change := v.read(t, catalog.RekeyObject)
	for at := 0; at < len(change); at += 37 {
		v.write(t, catalog.RekeyObject, change)
		v.flip(t, catalog.RekeyObject, int64(at))
		if r := run(t, v.locked(t), Hash); len(find(r, catalog.RekeyObject)) != 1 {
			t.Fatalf("byte %d of key.json: got %v", at, r.Problems)
		}
	}
}

// TestEveryFlippedByteOfASealedBackup walks through all objects.
func TestEveryFlippedByteOfASealedBackup(t *testing.T) {
	raw := wholeStream(t, file{"db/t.ibd", letters(2000)}, file{"db/u.ibd", letters(5000)})
	v := seal(t, raw, made{codec: "zstd", blockSize: 4096, volumeSize: 2500})
	for _, name := range objects(t, v.dir) {
		good := v.read(t, name)
		for at := 0; at < len(good); at += 3 * stride {
			bad := slices.Clone(good)
			bad[at] ^= 1 << (at % 8)
			v.write(t, name, bad)
			if r := run(t, v.locked(t), Hash); r.OK {
				t.Fatalf("byte %d of %s damaged: hash found nothing", at, name)
			}
			if name == catalog.KeyObject || name == catalog.ManifestObject || at%(9*stride) != 0 {
				continue
			}
			if r := run(t, v.open(t), Read); r.OK || len(find(r, name)) == 0 {
				t.Fatalf("byte %d of %s damaged: read found %v", at, name, r.Problems)
			}
		}
		v.write(t, name, good)
	}
	if r := run(t, v.open(t), Read); !r.OK {
		t.Errorf("the restored backup has problems: %v", r.Problems)
	}
}
