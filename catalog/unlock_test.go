package catalog

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// encryptedBackup is a backup of several volumes in memory.
type encryptedBackup struct {
	job
	sink   *memory
	r      *Repository
	id     string
	folder string
}

func newEncrypted(t testing.TB) *encryptedBackup {
	t.Helper()
	e := &encryptedBackup{sink: newMemory(), job: job{stream: longStream(t), volumes: 4096}.sealed(t)}
	e.r = repositories(t, e.sink)[0]
	e.id = e.mustRun(t, "db1", e.r).ID
	e.folder = "db1/" + e.id + "/"
	return e
}

// find returns the backup as a new process sees it.
func (e *encryptedBackup) find(t testing.TB) *Backup {
	t.Helper()
	b, err := e.r.Find(t.Context(), "db1", e.id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// object returns the stored bytes of an object of the backup.
func (e *encryptedBackup) object(name string) []byte { return e.sink.objects[e.folder+name] }

// put replaces an object of the backup.
func (e *encryptedBackup) put(name string, data []byte) { e.sink.put(e.folder+name, data) }

// keep returns a function that restores the sink.
func (m *memory) keep() func() {
	objects := make(map[string][]byte)
	for name, data := range m.objects {
		objects[name] = bytes.Clone(data)
	}
	return func() {
		m.objects = make(map[string][]byte)
		for name, data := range objects {
			m.objects[name] = bytes.Clone(data)
		}
	}
}

// reseal changes a manifest as one can who has no key: the seal is made anew, the code stays.
func reseal(t testing.TB, data []byte, edit func(*Manifest)) []byte {
	t.Helper()
	m, err := decodeManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	_, member, _ := cutMAC(data)
	mac, err := hex.DecodeString(string(member[len(macHead) : len(member)-len(macTail)]))
	if err != nil {
		t.Fatal(err)
	}
	edit(m)
	data, err = encodeManifest(m, func([]byte) []byte { return mac })
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// needsKey calls everything that needs the key, and returns what is no KeyError.
func needsKey(ctx context.Context, b *Backup) error {
	to, err := encrypt.ParseRecipients(b.Manifest.Recipients...)
	if err != nil {
		return err
	}
	volumes := b.StoredVolumes(ctx)
	defer volumes.Close()
	calls := map[string]func() error{
		"Index":          func() error { _, err := b.Index(ctx); return err },
		"OpenVolume":     func() error { _, err := b.OpenVolume(ctx, 1); return err },
		"CheckVolumes":   func() error { return b.CheckVolumes(ctx) },
		"At":             func() error { _, err := volumes.At(1); return err },
		"OpenPlain log":  func() error { _, err := b.OpenPlain(ctx, b.Manifest.Log.Name); return err },
		"OpenPlain data": func() error { _, err := b.OpenPlain(ctx, b.Manifest.Volumes[0].Name); return err },
		"Rekey":          func() error { return b.Rekey(ctx, to) },
	}
	for name, call := range calls {
		var want *KeyError
		if err := call(); !errors.As(err, &want) || want.ID != b.ID || !slices.Equal(want.Recipients, b.Recipients()) {
			return fmt.Errorf("%s: got error %v, want a *KeyError", name, err)
		}
	}
	return nil
}

func TestLocked(t *testing.T) {
	e := newEncrypted(t)
	b := e.find(t)
	if !b.Locked() || b.State != Complete || b.Err != nil || !b.Usable() {
		t.Errorf("got locked %v, state %s, error %v", b.Locked(), b.State, b.Err)
	}
	if got := b.Recipients(); !slices.Equal(got, e.to.Strings()) {
		t.Errorf("got recipients %q, want %q", got, e.to.Strings())
	}
	if err := needsKey(t.Context(), b); err != nil {
		t.Error(err)
	}
	if got := b.StoredVolumes(t.Context()).Stored(1, 7); got != -1 {
		t.Errorf("place in a volume that can't be opened: got %d, want -1", got)
	}
	stored, err := b.OpenPlain(t.Context(), SumsObject) // is not encrypted
	if err != nil || stored.Size() != int64(len(e.object(SumsObject))) {
		t.Errorf("%s: %v", SumsObject, err)
	}
	if err := b.Unlock(t.Context(), e.ids); err != nil || b.Locked() {
		t.Fatalf("unlock: %v", err)
	}
	if err := errors.Join(b.Unlock(t.Context(), nil), prove(b, e.stream)); err != nil { // it is open already
		t.Error(err)
	}
}

// TestManifestNamesNoTables: nothing in the store shows what is in the backup, and nothing of its key.
func TestManifestNamesNoTables(t *testing.T) {
	e := newEncrypted(t)
	e.rekeyed(t)
	for _, word := range []string{"db/t", "xtrabackup_info", ".ibd", "completed OK", "AGE-SECRET-KEY", "# The identity"} {
		for name, data := range e.sink.objects {
			if bytes.Contains(data, []byte(word)) {
				t.Errorf("%s shows %q to everyone", name, word)
			}
		}
	}
}

func TestUnlockWithWhichIdentity(t *testing.T) {
	e := newEncrypted(t)
	wrong, _ := person(t, false)
	other, _ := person(t, true)
	pass, err := encrypt.PassphraseIdentity("secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		ids  *encrypt.Identities
		ok   bool
	}{
		{"none", nil, false},
		{"empty", new(encrypt.Identities).With(nil), false},
		{"wrong", wrong, false},
		{"wrong, of another kind", other, false},
		{"a passphrase", pass, false},
		{"right", e.ids, true},
		{"right, the second", wrong.With(e.ids), true},
		{"right, the first", e.ids.With(other), true},
	} {
		b := e.find(t)
		err := b.Unlock(t.Context(), test.ids)
		var keyErr *KeyError
		switch {
		case test.ok && (err != nil || b.Locked()):
			t.Errorf("%s: got error %v", test.name, err)
		case !test.ok && (!errors.As(err, &keyErr) || !b.Locked() || errors.Is(err, ErrAltered)):
			t.Errorf("%s: got error %v, want a *KeyError", test.name, err)
		case !test.ok && !strings.Contains(err.Error(), e.to.Strings()[0]):
			t.Errorf("%s: got error %v, want it to name %s", test.name, err, e.to.Strings()[0])
		case !test.ok && !test.ids.Empty() && !errors.Is(err, encrypt.ErrNoMatch):
			t.Errorf("%s: got error %v, want %v", test.name, err, encrypt.ErrNoMatch)
		}
	}
	plain := job{stream: longStream(t), started: began.Add(time.Hour)}.mustRun(t, "db1", e.r)
	if err := plain.Unlock(t.Context(), nil); err != nil || plain.Locked() || plain.PostQuantum() || plain.Recipients() == nil {
		t.Errorf("a plain backup: got error %v, locked %v", err, plain.Locked())
	}
	if err := plain.Rekey(t.Context(), e.to); err == nil {
		t.Error("a plain backup was given a key")
	}
}

// TestKindsOfRecipients takes and reads a backup for each kind.
func TestKindsOfRecipients(t *testing.T) {
	hybrid, toHybrid := person(t, true)
	first, toFirst := person(t, false)
	second, toSecond := person(t, false)
	both, err := encrypt.ParseRecipients(append(toFirst.Strings(), toSecond.Strings()...)...)
	if err != nil {
		t.Fatal(err)
	}
	toPass, err := encrypt.Passphrase("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if toPass, err = toPass.WithWorkFactor(1); err != nil {
		t.Fatal(err)
	}
	pass, err := encrypt.PassphraseIdentity("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		to   *encrypt.Recipients
		ids  []*encrypt.Identities
		want []string
	}{
		{"post-quantum", toHybrid, []*encrypt.Identities{hybrid}, toHybrid.Strings()},
		{"two", both, []*encrypt.Identities{first, second}, both.Strings()},
		{"passphrase", toPass, []*encrypt.Identities{pass}, []string{"passphrase"}},
	} {
		j := job{stream: longStream(t), codec: "zstd"}.sealed(t)
		j.to, j.ids = test.to, test.ids[0]
		if j.key, err = encrypt.NewKey(test.to.PostQuantum()); err != nil {
			t.Fatal(err)
		}
		r := repositories(t, newMemory())[0]
		b := j.mustRun(t, "db1", r)
		if !slices.Equal(b.Manifest.Recipients, test.want) || b.PostQuantum() != test.to.PostQuantum() {
			t.Errorf("%s: got recipients %q, post-quantum %v", test.name, b.Manifest.Recipients, b.PostQuantum())
		}
		for i, ids := range test.ids {
			again, err := r.Find(t.Context(), "db1", Latest)
			if err != nil {
				t.Fatal(err)
			}
			if j.ids = ids; j.prove(again) != nil {
				t.Errorf("%s: recipient %d: %v", test.name, i, j.prove(again))
			}
		}
	}
}

// TestUnlockAltered: what one without the key can write is read, but never taken for what the holder of the key left.
func TestUnlockAltered(t *testing.T) {
	e := newEncrypted(t)
	other := job{stream: longStream(t), volumes: 4096, started: began.Add(time.Hour)}.sealed(t)
	other.to, other.ids = e.to, e.ids // another backup for the same people
	foreign := other.mustRun(t, "db1", e.r)
	theirs := "db1/" + foreign.ID + "/"
	disguise := func(m *Manifest) { m.ID, m.Started = e.id, began }
	manifest := func(edit func(*Manifest)) func() {
		return func() { e.put(ManifestObject, reseal(t, e.object(ManifestObject), edit)) }
	}
	for _, test := range []struct {
		name string
		do   func()
	}{
		{"LSN", manifest(func(m *Manifest) { m.ToLSN++ })},
		{"recipients", manifest(func(m *Manifest) { m.Recipients = foreign.Manifest.Recipients[:1]; m.Recipients[0] += "x" })},
		{"a warning less", manifest(func(m *Manifest) { m.Warnings = []string{"all is well"} })},
		{"host", manifest(func(m *Manifest) { m.Host = "elsewhere" })},
		{"binlog position", manifest(func(m *Manifest) { m.Binlog.Position = 4 })},
		{"a volume less", manifest(func(m *Manifest) {
			m.StoredBytes -= m.Volumes[len(m.Volumes)-1].Size
			m.Volumes = m.Volumes[:len(m.Volumes)-1]
		})},
		{"two volumes swapped", func() {
			a, b := e.object("data.0001.xbs.age"), e.object("data.0002.xbs.age")
			e.put("data.0001.xbs.age", b)
			e.put("data.0002.xbs.age", a)
			manifest(func(m *Manifest) {
				one, two := &m.Volumes[0], &m.Volumes[1]
				one.Size, two.Size, one.SHA256, two.SHA256 = two.Size, one.Size, two.SHA256, one.SHA256
			})()
		}},
		{"another's index", func() {
			e.put("index.zst.age", e.sink.objects[theirs+"index.zst.age"])
			manifest(func(m *Manifest) { m.Index = foreign.Manifest.Index })()
		}},
		{"another's manifest", func() { e.put(ManifestObject, reseal(t, e.sink.objects[theirs+ManifestObject], disguise)) }},
		{"all of another's", func() {
			for name, data := range e.sink.objects {
				if mine, found := strings.CutPrefix(name, theirs); found {
					e.put(mine, data)
				}
			}
			e.put(ManifestObject, reseal(t, e.sink.objects[theirs+ManifestObject], disguise))
		}},
		{"code of zeros", func() {
			m, err := decodeManifest(e.object(ManifestObject))
			if err != nil {
				t.Fatal(err)
			}
			data, err := encodeManifest(m, func([]byte) []byte { return make([]byte, 32) })
			if err != nil {
				t.Fatal(err)
			}
			e.put(ManifestObject, data)
		}},
		{"another member before the code", func() {
			body, member, _ := cutMAC(e.object(ManifestObject))
			text := string(body) + ",\n  \"volumes\": []" + string(member)
			text = strings.Replace(text, ",\n  \"volumes\": []", ",\n  \"partial\": true", 1)
			e.put(ManifestObject, []byte(text+sealHead+sumOf([]byte(text))+sealTail))
		}},
	} {
		restore := e.sink.keep()
		test.do()
		b := e.find(t)
		if b.Manifest == nil {
			t.Errorf("%s: %v", test.name, b.Err)
			continue
		}
		for range 2 {
			if err := b.Unlock(t.Context(), e.ids); !errors.Is(err, ErrAltered) || !errors.Is(err, ErrManifest) {
				t.Errorf("%s: got error %v, want %v", test.name, err, ErrAltered)
			}
		}
		if b.Locked() {
			t.Errorf("%s: it is locked: nothing could be saved", test.name)
		}
		if err := b.Rekey(t.Context(), e.to); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: rekey: got error %v, want %v", test.name, err, ErrAltered)
		}
		restore()
	}
	if err := e.prove(e.find(t)); err != nil {
		t.Errorf("the unaltered one: %v", err)
	}
}

// TestObjectsOfAnother: objects that were swapped while the manifest was left alone.
func TestObjectsOfAnother(t *testing.T) {
	e := newEncrypted(t)
	other := e.job
	other.started = began.Add(time.Hour)
	var err error
	if other.key, err = encrypt.NewKey(false); err != nil {
		t.Fatal(err)
	}
	theirs := "db1/" + other.mustRun(t, "db1", e.r).ID + "/"
	for _, test := range []struct {
		name  string
		check func(*Backup) error
		want  []error
	}{
		{"index.zst.age", func(b *Backup) error { _, err := b.Index(t.Context()); return err }, []error{ErrIndex}},
		{"data.0001.xbs.age", func(b *Backup) error { return b.CheckVolumes(t.Context()) }, []error{ErrVolume, encrypt.ErrDamaged}},
		{"backup.log.zst.age", func(b *Backup) error { _, err := b.OpenPlain(t.Context(), "backup.log.zst.age"); return err },
			[]error{encrypt.ErrDamaged}},
		{KeyObject, func(b *Backup) error { return b.altered }, []error{ErrAltered}},
		{SumsObject, func(b *Backup) error {
			if data, err := b.ReadSums(t.Context()); err != nil || b.SumsFit(data) {
				return err
			}
			return ErrManifest
		}, []error{ErrManifest}},
	} {
		restore := e.sink.keep()
		e.put(test.name, e.sink.objects[theirs+test.name])
		b := e.find(t)
		if err := b.Unlock(t.Context(), e.ids); (err != nil) != (test.name == KeyObject) {
			t.Errorf("%s: unlock: %v", test.name, err)
		}
		err := test.check(b)
		for _, want := range test.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: got error %v, want %v", test.name, err, want)
			}
		}
		if keyErr := new(KeyError); errors.As(err, &keyErr) || errors.Is(err, encrypt.ErrNoMatch) {
			t.Errorf("%s: got error %v, which blames the key", test.name, err)
		}
		restore()
	}
	// Volumes of the same backup that changed places open, and don't hold what the index says.
	a, b := e.object("data.0001.xbs.age"), e.object("data.0002.xbs.age")
	e.put("data.0001.xbs.age", b)
	e.put("data.0002.xbs.age", a)
	if err := e.prove(e.find(t)); err == nil {
		t.Error("two volumes swapped: not found")
	}
}

// TestManifestsThatPretend: without a fitting code, encrypted or not, there is no manifest.
func TestManifestsThatPretend(t *testing.T) {
	e := newEncrypted(t)
	data := e.object(ManifestObject)
	body, member, _ := cutMAC(data)
	plain := job{stream: longStream(t), started: began.Add(time.Hour)}.mustRun(t, "db1", e.r)
	open := string(e.sink.objects["db1/"+plain.ID+"/"+ManifestObject])
	open = open[:len(open)-sealSize]
	without := func(text, old, new string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("there is no %q", old)
		}
		return strings.ReplaceAll(text, old, new)
	}
	notEncrypted := without(string(body), `"encrypted": true`, `"encrypted": false`)
	_, list, _ := strings.Cut(string(body), `"recipients": `)
	list, _, _ = strings.Cut(list, "],")
	for name, text := range map[string]string{
		"encrypted without a code":            string(body),
		"code of 31 bytes":                    string(body) + string(member[:len(member)-3]) + macTail,
		"code of 33 bytes":                    string(body) + string(member[:len(member)-1]) + `00"`,
		"code in capitals":                    string(body) + macHead + strings.Repeat("AB", 32) + macTail,
		"code spaced otherwise":               string(body) + without(string(member), ": ", ":  "),
		"code before another member":          string(body) + string(member) + ",\n  \"later\": 1",
		"not encrypted, with a code":          notEncrypted + string(member),
		"not encrypted, with a key":           notEncrypted,
		"not encrypted, names of encrypted":   without(without(notEncrypted, `"key": {`, `"later": {`), list, "["),
		"plain, with a code":                  open + string(member),
		"plain, said to be encrypted":         without(open, `"encrypted": false`, `"encrypted": true`) + string(member),
		"plain, with recipients":              without(open, `"recipients": []`, `"recipients": ["age1x"]`),
		"encrypted, without key":              without(string(body), `"key": {`, `"later": {`) + string(member),
		"encrypted, key null":                 without(string(body), `"key": {`, "\"key\": null,\n  \"later\": {") + string(member),
		"encrypted, without recipients":       without(string(body), list, "[") + string(member),
		"encrypted, volume of a plain backup": without(string(body), "0001.xbs.age", "0001.xbs") + string(member),
	} {
		sealed := []byte(text + sealHead + sumOf([]byte(text)) + sealTail)
		if m, err := decodeManifest(sealed); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: got %+v and error %v, want %v", name, m, err, ErrManifest)
		}
		if raceDetector {
			continue
		}
		e.put(ManifestObject, sealed)
		if b := e.find(t); b.Usable() || b.Manifest != nil || !errors.Is(b.Unlock(t.Context(), e.ids), ErrManifest) {
			t.Errorf("%s: it is listed as %s", name, b.State)
		}
	}
}

// TestDamagedKey flips every bit of key.age, cuts it and lets it grow.
func TestDamagedKey(t *testing.T) {
	e := newEncrypted(t)
	good := bytes.Clone(e.object(KeyObject))
	check := func(name string, data []byte) {
		t.Helper()
		e.put(KeyObject, data)
		b := e.find(t)
		if _, err := b.ReadKey(t.Context()); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: read: got error %v, want %v", name, err, ErrAltered)
		}
		if err := b.Unlock(t.Context(), e.ids); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: got error %v, want %v", name, err, ErrAltered)
		}
	}
	step := 1
	if raceDetector {
		step = 11
	}
	for i := 0; i < 8*len(good); i += step {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		check(fmt.Sprintf("bit %d", i), bad)
	}
	for n := 0; n < len(good); n += 1 + 16*(step-1) {
		check(fmt.Sprintf("cut at %d", n), good[:n])
	}
	check("a byte more", append(bytes.Clone(good), 0))
	check("a large one", make([]byte, maxKey+1))

	delete(e.sink.objects, e.folder+KeyObject)
	b := e.find(t)
	if err := b.Unlock(t.Context(), e.ids); !errors.Is(err, ErrMissing) || !b.Locked() {
		t.Errorf("no %s: got error %v, want %v", KeyObject, err, ErrMissing)
	}
	e.put(KeyObject, good)
	b = e.find(t)
	b.Repository = through(e.r, faulty.New(faulty.Fault{Op: faulty.ReadAt, Err: errBoom}).Wrap(e.sink))
	if err := b.Unlock(t.Context(), e.ids); !errors.Is(err, errBoom) || errors.Is(err, ErrAltered) || !b.Locked() {
		t.Errorf("unreadable: got error %v, want %v", err, errBoom)
	}
}

// giants makes every object of some name look larger than any memory.
type giants struct {
	*memory
	name string
}

func (g giants) Open(ctx context.Context, name string) (sinks.Object, error) {
	if strings.HasSuffix(name, "/"+g.name) {
		return giant{}, nil
	}
	return g.memory.Open(ctx, name)
}

type giant struct{}

func (giant) ReadAt([]byte, int64) (int, error) { return 0, errBoom }
func (giant) Close() error                      { return nil }
func (giant) Size() int64                       { return 1 << 62 }

// TestGiants: objects that claim to be huge are not read.
func TestGiants(t *testing.T) {
	e := newEncrypted(t)
	for name, want := range map[string]error{KeyObject: ErrAltered, RekeyObject: ErrAltered, "index.zst.age": ErrIndex,
		"data.0001.xbs.age": ErrVolume} {
		e.put(RekeyObject, nil) // so that it is listed
		if name != RekeyObject {
			delete(e.sink.objects, e.folder+RekeyObject)
		}
		b, err := through(e.r, giants{e.sink, name}).Find(t.Context(), "db1", e.id)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Unlock(t.Context(), e.ids)
		if err == nil {
			_, err = b.Index(t.Context())
		}
		if err == nil {
			err = b.CheckVolumes(t.Context())
		}
		if !errors.Is(err, want) || errors.Is(err, errBoom) {
			t.Errorf("%s: got error %v, want %v", name, err, want)
		}
	}
}

func TestKeyErrorNamesRecipients(t *testing.T) {
	e := &KeyError{ID: "x", Err: errNoIdentity}
	for i := range 20 {
		e.Recipients = append(e.Recipients, fmt.Sprintf("age1%02d", i))
	}
	e.Recipients[1] = "age1pq1" + strings.Repeat("é", 2000)
	text := e.Error()
	if !strings.Contains(text, "age107") || strings.Contains(text, "age108") || !strings.Contains(text, "12 more") || len(text) > 400 {
		t.Errorf("got %q", text)
	}
	if !errors.Is(e, errNoIdentity) {
		t.Error("the cause is lost")
	}
}

// TestAlteredIsSaved: who goes on knowingly can still read what is there.
func TestAlteredIsSaved(t *testing.T) {
	e := newEncrypted(t)
	e.put(ManifestObject, reseal(t, e.object(ManifestObject), func(m *Manifest) { m.ToLSN = 1 }))
	b := e.find(t)
	if err := b.Unlock(t.Context(), e.ids); !errors.Is(err, ErrAltered) {
		t.Fatalf("got error %v, want %v", err, ErrAltered)
	}
	if err := prove(b, e.stream); err != nil {
		t.Error(err)
	}
}

func TestOpenPlain(t *testing.T) {
	e := newEncrypted(t)
	b := e.find(t)
	if err := b.Unlock(t.Context(), e.ids); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		o, err := b.OpenPlain(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		data, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var stream []byte
	for _, v := range b.Manifest.Volumes {
		stream = append(stream, read(v.Name)...)
	}
	if !bytes.Equal(stream, e.stream) {
		t.Errorf("the volumes hold %d bytes, want %d", len(stream), len(e.stream))
	}
	log, err := lookup(t, "zstd").NewReader(bytes.NewReader(read(b.Manifest.Log.Name)))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || !strings.Contains(string(text), "completed OK!") {
		t.Errorf("got log %q (%v)", text, err)
	}
	for _, name := range []string{KeyObject, ManifestObject} {
		if got := read(name); !bytes.Equal(got, e.object(name)) {
			t.Errorf("%s is not what is stored", name)
		}
	}
	if _, err := b.OpenPlain(t.Context(), "no.such"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, fs.ErrNotExist)
	}
}
