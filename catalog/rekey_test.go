package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/encrypt"
	"github.com/mbwrap/mbwrap/sinks"
	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// rekeyed gives the backup to somebody else and returns who that is.
func (e *encryptedBackup) rekeyed(t testing.TB) (ids *encrypt.Identities, to *encrypt.Recipients) {
	t.Helper()
	ids, to = person(t, false)
	b := e.find(t)
	if err := errors.Join(b.Unlock(t.Context(), e.ids), b.Rekey(t.Context(), to)); err != nil {
		t.Fatal(err)
	}
	return ids, to
}

// as returns the job for other identities.
func (e *encryptedBackup) as(ids *encrypt.Identities) job {
	j := e.job
	j.ids = ids
	return j
}

func TestRekey(t *testing.T) {
	e := newEncrypted(t)
	before := e.sink.keep()
	data := make(map[string]string)
	for name, content := range e.sink.objects {
		data[name] = string(content)
	}
	start := time.Now().Add(-time.Second)
	newIDs, to := e.rekeyed(t)
	var changed []string
	for name, content := range e.sink.objects {
		if data[name] != string(content) {
			changed = append(changed, strings.TrimPrefix(name, e.folder))
		}
	}
	slices.Sort(changed)
	if want := []string{SumsObject, KeyObject, RekeyObject}; !slices.Equal(changed, want) {
		t.Errorf("changed: %q, want %q", changed, want)
	}
	if len(e.sink.locks) > 0 {
		t.Errorf("locks are left: %v", e.sink.locks)
	}
	b := e.find(t)
	if got := b.Recipients(); !slices.Equal(got, to.Strings()) || !slices.Equal(b.Manifest.Recipients, e.to.Strings()) {
		t.Errorf("got recipients %q, those of the manifest %q", got, b.Manifest.Recipients)
	}
	if b.change.Changed.Before(start) || b.change.Changed.After(time.Now()) || len(b.Keys()) != 1 || b.State != Complete {
		t.Errorf("got %+v in state %s", b.change, b.State)
	}
	if got, want := b.Keys()[0], keyOf(e.object(KeyObject)); got != want || got == *b.Manifest.Key {
		t.Errorf("got key %+v, want %+v", got, want)
	}
	var keyErr *KeyError
	if err := b.Unlock(t.Context(), e.ids); !errors.As(err, &keyErr) || !slices.Equal(keyErr.Recipients, to.Strings()) {
		t.Errorf("the old identity: got error %v", err)
	}
	if err := e.as(newIDs).prove(b); err != nil {
		t.Errorf("the new identity: %v", err)
	}
	// Again, for both.
	both, err := encrypt.ParseRecipients(append(e.to.Strings(), to.Strings()...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Rekey(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	for name, ids := range map[string]*encrypt.Identities{"old": e.ids, "new": newIDs} {
		if err := e.as(ids).prove(e.find(t)); err != nil {
			t.Errorf("%s of both: %v", name, err)
		}
	}
	// Whoever puts all of it back has the state of before: nothing in it says that there was a change.
	before()
	if err := e.prove(e.find(t)); err != nil {
		t.Error(err)
	}
}

// TestRekeyKinds: recipients of another kind than the backup's own key.
func TestRekeyKinds(t *testing.T) {
	e := newEncrypted(t)
	ids, to := person(t, true)
	b := e.find(t)
	if err := errors.Join(b.Unlock(t.Context(), e.ids), b.Rekey(t.Context(), to)); err != nil {
		t.Fatal(err)
	}
	b = e.find(t)
	if err := e.as(ids).prove(b); err != nil {
		t.Error(err)
	}
	if b.PostQuantum() || !to.PostQuantum() {
		t.Error("new recipients have made the data post-quantum")
	}
}

// TestAlteredKeyRecords: key.json is bound to the backup as the manifest is.
func TestAlteredKeyRecords(t *testing.T) {
	e := newEncrypted(t)
	first := bytes.Clone(e.object(KeyObject))
	other := newEncrypted(t)
	other.rekeyed(t)
	forged := sealRecord(t, e.to.Strings(), keyOf(first))
	restore := e.sink.keep()
	e.put(RekeyObject, forged)
	b := e.find(t)
	if err := b.Unlock(t.Context(), e.ids); !errors.Is(err, ErrAltered) || b.Locked() {
		t.Errorf("made up before any change: got error %v, want %v", err, ErrAltered)
	}
	restore()

	ids, to := e.rekeyed(t)
	good := bytes.Clone(e.object(RekeyObject))
	c, err := decodeChange(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for _, test := range []struct {
		name string
		data []byte
		bad  bool // seen without a key
	}{
		{"removed", nil, false},
		{"flipped", flipped, true},
		{"cut", good[:len(good)-5], true},
		{"empty", []byte{}, true},
		{"another's", other.object(RekeyObject), false},
		{"other recipients", sealRecord(t, other.to.Strings(), c.Keys[0]), false},
		{"another digest too", sealRecord(t, to.Strings(), c.Keys[0], keyOf(first)), false},
		{"another digest", sealRecord(t, to.Strings(), keyOf(first)), false},
		{"no keys", sealRecord(t, to.Strings()), true},
		{"no recipients", sealRecord(t, nil, c.Keys[0]), true},
	} {
		restore := e.sink.keep()
		e.put(RekeyObject, test.data)
		if test.data == nil {
			delete(e.sink.objects, e.folder+RekeyObject)
		}
		b := e.find(t)
		if bad := b.State == Warning && errors.Is(b.Err, ErrAltered); bad != test.bad || b.Manifest == nil {
			t.Errorf("%s: it is listed as %s (%v)", test.name, b.State, b.Err)
		}
		if err := b.Unlock(t.Context(), ids); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: got error %v, want %v", test.name, err, ErrAltered)
		}
		if b.Locked() {
			t.Errorf("%s: it is locked", test.name)
		}
		// The key is right and so is the manifest: a change of the key puts it in order.
		if err := b.Rekey(t.Context(), to); err != nil {
			t.Errorf("%s: rekey: %v", test.name, err)
		}
		if err := errors.Join(b.Unlock(t.Context(), nil), e.as(ids).prove(e.find(t))); err != nil {
			t.Errorf("%s: after another rekey: %v", test.name, err)
		}
		restore()
	}
}

// sealRecord makes a key.json as one can who has no key.
func sealRecord(t testing.TB, recipients []string, keys ...Object) []byte {
	t.Helper()
	data, err := sealMAC(&keyChange{Format: Format, Recipients: recipients, Changed: began, Keys: keys},
		func([]byte) []byte { return make([]byte, 32) })
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// usable says what is wrong with a backup after a rekey that ended somehow: it opens with the old identity or with the
// new one, and what lies there is what key.json vouches for. It tells who opens it.
func (e *encryptedBackup) usable(newIDs *encrypt.Identities) (byOld bool, err error) {
	var tried error
	for _, ids := range []*encrypt.Identities{e.ids, newIDs} {
		b, err := e.r.Find(context.Background(), "db1", e.id)
		if err != nil {
			return false, err
		}
		if err = e.as(ids).prove(b); err == nil {
			return ids == e.ids, nil
		}
		tried = errors.Join(tried, err)
	}
	return false, tried
}

// dyingReplacer dies at its k-th operation, as mortal does, replacements included.
type dyingReplacer struct{ *mortal }

func (d dyingReplacer) Replace(ctx context.Context, name string, data []byte) error {
	return d.step(func() error { return d.memory.Replace(ctx, name, data) })
}

// TestRekeyDies at every step, once and then again at every step of the next attempt.
func TestRekeyDies(t *testing.T) {
	e := newEncrypted(t)
	newIDs, to := person(t, false)
	everyone := e.ids.With(newIDs)
	whole := e.sink.keep()
	attempt := func(k int, after bool) bool {
		dying := dyingReplacer{&mortal{memory: e.sink, left: k, after: after}}
		defer dying.bury()
		b := e.find(t)
		if err := b.Unlock(t.Context(), everyone); err != nil {
			t.Fatalf("unlock: %v", err)
		}
		b.Repository = through(e.r, dying)
		if err := b.Rekey(t.Context(), to); (err == nil) != !dying.dead {
			t.Errorf("died %v: got error %v", dying.dead, err)
		}
		return dying.dead
	}
	check := func(what string) {
		t.Helper()
		if _, err := e.usable(newIDs); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	steps := 0
	for first := 0; ; first++ {
		died := false
		for _, after := range []bool{false, true} {
			whole()
			died = attempt(first, after) || died
			check(fmt.Sprintf("died at step %d", first))
			between := e.sink.keep()
			for second := range 8 {
				if raceDetector && (first+second)%3 > 0 {
					continue // each step is slow
				}
				between()
				attempt(second, !after)
				check(fmt.Sprintf("died at step %d, and then at %d", first, second))
			}
			between()
			attempt(100, false)
			if byOld, err := e.usable(newIDs); byOld || err != nil {
				t.Errorf("died at step %d: after the next one the old identity opens it: %v, %v", first, byOld, err)
			}
			if got := e.find(t).Recipients(); !slices.Equal(got, to.Strings()) {
				t.Errorf("died at step %d: got recipients %q in the end, want %q", first, got, to.Strings())
			}
		}
		if !died {
			break
		}
		steps++
	}
	if steps != 6 { // lock, four replacements, unlock
		t.Errorf("a rekey has %d steps, want 6", steps)
	}
}

// TestRekeyFails at every single step: it says so, and frees its lock.
func TestRekeyFails(t *testing.T) {
	e := newEncrypted(t)
	newIDs, to := person(t, false)
	whole := e.sink.keep()
	for _, op := range []faulty.Op{faulty.Lock, faulty.Open, faulty.ReadAt, faulty.Replace, faulty.Unlock} {
		for k := 0; ; k++ {
			whole()
			b := e.find(t)
			if err := b.Unlock(t.Context(), e.ids); err != nil {
				t.Fatal(err)
			}
			faults := faulty.New(faulty.Fault{Op: op, Skip: k, Count: 1, Err: errBoom})
			b.Repository = through(e.r, faults.Wrap(e.sink))
			err := b.Rekey(t.Context(), to)
			if faults.Struck() == 0 {
				if k == 0 {
					t.Errorf("a rekey never calls %s", op)
				}
				break
			}
			if !errors.Is(err, errBoom) {
				t.Errorf("%s %d: got error %v, want %v", op, k, err, errBoom)
			}
			if op != faulty.Unlock && len(e.sink.locks) > 0 {
				t.Errorf("%s %d: locks are left: %v", op, k, e.sink.locks)
			}
			clear(e.sink.locks)
			if _, err := e.usable(newIDs); err != nil {
				t.Errorf("%s %d: %v", op, k, err)
			}
		}
	}
}

func TestRekeyIsAlone(t *testing.T) {
	e := newEncrypted(t)
	_, to := person(t, false)
	b := e.find(t)
	if err := b.Unlock(t.Context(), e.ids); err != nil {
		t.Fatal(err)
	}
	lock, err := e.sink.Lock(t.Context(), e.folder+rekeyLock, []byte("another"))
	if err != nil {
		t.Fatal(err)
	}
	var held *sinks.LockedError
	if err := b.Rekey(t.Context(), to); !errors.As(err, &held) {
		t.Errorf("got error %v, want a %T", err, held)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	run, err := e.sink.Lock(t.Context(), "db1/"+lockObject, []byte("a backup")) // a run does not matter
	if err != nil {
		t.Fatal(err)
	}
	defer run.Unlock()
	if err := b.Rekey(t.Context(), to); err != nil {
		t.Error(err)
	}
	b.Repository = through(e.r, plain{e.sink})
	if err := b.Rekey(t.Context(), to); err == nil {
		t.Error("a sink that can't replace: got no error")
	}
	b.Repository = through(e.r, replacer{plain{e.sink}, e.sink}) // one without locks is fine
	if err := b.Rekey(t.Context(), to); err != nil {
		t.Error(err)
	}
}

// replacer is a sink that can replace, and not lock.
type replacer struct {
	plain
	sinks.Replacer
}

// TestReadersDuringARekey: whoever listed the backup before a change still opens it afterwards.
func TestReadersDuringARekey(t *testing.T) {
	e := newEncrypted(t)
	b := e.find(t)
	newIDs, to := e.rekeyed(t)
	if err := e.as(newIDs).prove(b); err != nil {
		t.Errorf("listed before the change: %v", err)
	}
	if got := b.Recipients(); !slices.Equal(got, to.Strings()) {
		t.Errorf("got recipients %q, want %q", got, to.Strings())
	}
	// A record that could not be read, or was damaged, when the backup was listed.
	bad := through(e.r, faulty.New(faulty.Fault{Op: faulty.ReadAt, Pattern: "*/*/" + RekeyObject, Err: errBoom, Count: 2}).Wrap(e.sink))
	if b, err := bad.Find(t.Context(), "db1", e.id); err != nil || !errors.Is(b.Err, errBoom) || b.State != Complete {
		t.Errorf("got %+v (%v)", b, err)
	} else if err := b.Unlock(t.Context(), newIDs); !errors.Is(err, errBoom) || !b.Locked() {
		t.Errorf("unreadable: got error %v, want %v", err, errBoom)
	} else if err := e.as(newIDs).prove(b); err == nil || b.Locked() {
		t.Errorf("unlocked at last, and it still says %v", err)
	}
}

func TestNewerKeyRecords(t *testing.T) {
	e := newEncrypted(t)
	ids, _ := e.rekeyed(t)
	e.put(RekeyObject, sealText(t, "{\n  \"format\": 2,\n  \"keys\": 5\n}"))
	b := e.find(t)
	if !errors.Is(b.Err, ErrFormat) || b.State != Complete {
		t.Errorf("got %v in state %s, want %v", b.Err, b.State, ErrFormat)
	}
	if err := b.Unlock(t.Context(), ids); !errors.Is(err, ErrFormat) || !b.Locked() {
		t.Errorf("got error %v, want %v", err, ErrFormat)
	}
}

// TestRekeyedLeftovers: a key.json without a manifest is a leftover as any other.
func TestRekeyedLeftovers(t *testing.T) {
	e := newEncrypted(t)
	e.rekeyed(t)
	delete(e.sink.objects, e.folder+ManifestObject)
	want := len(e.sink.names("db1"))
	left, _, err := e.r.Leftovers(t.Context(), LeftoverOptions{Server: "db1", Now: time.Now().Add(time.Hour), Remove: true})
	if err != nil || len(left) != want || len(e.sink.names("db1")) > 0 {
		t.Errorf("got %d leftovers (%v), want %d; left %q", len(left), err, want, e.sink.names("db1"))
	}
}

// hostileRecords have a right seal, and a code in its place.
func TestHostileKeyRecords(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	ok := Object{KeyObject, 300, sum}
	with := func(n int, o Object) []Object { return slices.Repeat([]Object{o}, n) }
	for _, test := range []struct {
		name string
		c    keyChange
	}{
		{"no format", keyChange{Recipients: []string{"a"}, Keys: with(1, ok)}},
		{"no keys", keyChange{Format: 1, Recipients: []string{"a"}}},
		{"too many keys", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(maxKeys+1, ok)}},
		{"another object", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{"data.0001.xbs", 300, sum})}},
		{"name that leads away", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{"../key.age", 300, sum})}},
		{"empty key", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{KeyObject, 0, sum})}},
		{"negative key", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{KeyObject, -1 << 63, sum})}},
		{"huge key", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{KeyObject, 1 << 30, sum})}},
		{"largest key", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{KeyObject, 1<<63 - 1, sum})}},
		{"no digest", keyChange{Format: 1, Recipients: []string{"a"}, Keys: with(1, Object{KeyObject, 300, ""})}},
		{"no recipients", keyChange{Format: 1, Keys: with(1, ok)}},
		{"empty recipient", keyChange{Format: 1, Recipients: []string{""}, Keys: with(1, ok)}},
		{"recipient with an escape", keyChange{Format: 1, Recipients: []string{"age1\x1b[2J"}, Keys: with(1, ok)}},
		{"recipient with a line end", keyChange{Format: 1, Recipients: []string{"age1\nage1"}, Keys: with(1, ok)}},
		{"long recipient", keyChange{Format: 1, Recipients: []string{strings.Repeat("a", maxRecipient+1)}, Keys: with(1, ok)}},
		{"many recipients", keyChange{Format: 1, Recipients: slices.Repeat([]string{"a"}, maxRecipients+1), Keys: with(1, ok)}},
	} {
		data, err := sealMAC(&test.c, func([]byte) []byte { return make([]byte, 32) })
		if err != nil {
			t.Fatal(err)
		}
		if c, err := decodeChange(data); !errors.Is(err, ErrAltered) {
			t.Errorf("%s: got %+v and error %v, want %v", test.name, c, err, ErrAltered)
		}
		// The manifest has the same limits.
		m := encryptedExample()
		if m.Recipients = test.c.Recipients; len(test.c.Keys) == 1 {
			m.Key = &test.c.Keys[0]
		} else {
			m.Key = nil
		}
		if test.c.Format == 0 {
			continue
		}
		if data, err = encodeManifest(m, func([]byte) []byte { return make([]byte, 32) }); err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest(data); !errors.Is(err, ErrManifest) {
			t.Errorf("%s in the manifest: got error %v, want %v", test.name, err, ErrManifest)
		}
	}
	if _, err := decodeChange(sealText(t, "{\n  \"format\": 1,\n  \"keys\": 5\n}")); !errors.Is(err, ErrAltered) {
		t.Errorf("a number for the keys: got error %v, want %v", err, ErrAltered)
	}
}

// FuzzKeyRecord seals what the fuzzer makes. What is accepted names nothing but key.age, and is small.
func FuzzKeyRecord(f *testing.F) {
	for _, keys := range [][]Object{{{KeyObject, 300, sumOf(nil)}}, {{KeyObject, 300, sumOf(nil)}, {KeyObject, 301, sumOf(nil)}}} {
		data := sealRecord(f, []string{"age1x", "passphrase"}, keys...)
		body, _, _ := cutMAC(data)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		mac := func([]byte) []byte { return make([]byte, 32) }
		body = append(bytes.Clone(body), macMember(body, mac)...)
		c, err := decodeChange([]byte(string(body) + sealHead + sumOf(body) + sealTail))
		if err != nil {
			if !errors.Is(err, ErrAltered) && !errors.Is(err, ErrFormat) {
				t.Fatalf("got error %v", err)
			}
			return
		}
		for _, o := range c.Keys {
			if o.Name != KeyObject || o.Size < 1 || o.Size > maxKey {
				t.Fatalf("accepted %+v", o)
			}
		}
		data, err := sealMAC(c, mac)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeChange(data)
		if err != nil || !slices.Equal(again.Keys, c.Keys) || !slices.Equal(again.Recipients, c.Recipients) || !again.Changed.Equal(c.Changed) {
			t.Fatalf("got %+v (%v), want %+v", again, err, c)
		}
	})
}
