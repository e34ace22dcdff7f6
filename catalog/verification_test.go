package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mbwrap/mbwrap/sinks/faulty"
)

// check is a verification in short: level, "ok" or "bad", and a sample.
func check(level, result string, sample float64) *Verification {
	return &Verification{Level: level, OK: result == "ok", Sample: sample, Host: level + " " + result}
}

// TestFailuresAreKept: what a check has found stays until one that looks at as much finds nothing.
func TestFailuresAreKept(t *testing.T) {
	for _, test := range []struct {
		name   string
		checks []*Verification
		state  State
		fails  string // the host of what is kept as a failure
		deeper string
	}{
		{"none", nil, Complete, "", ""},
		{"good", []*Verification{check("hash", "ok", 0)}, Complete, "", ""},
		{"bad", []*Verification{check("hash", "bad", 0)}, Bad, "", ""},
		{"bad, then good at the same level", []*Verification{check("read", "bad", 0), check("read", "ok", 0)}, Complete, "", ""},
		{"bad, then good at a deeper level", []*Verification{check("hash", "bad", 0), check("restore", "ok", 0)}, Complete, "", ""},
		{"failed restore, then good hash", []*Verification{check("restore", "bad", 0), check("hash", "ok", 0)}, Bad, "restore bad", ""},
		{"failed restore, then good pages", []*Verification{check("restore", "bad", 0), check("pages", "ok", 0)}, Bad, "restore bad", ""},
		{"failed restore, then much that is good", []*Verification{check("restore", "bad", 0), check("hash", "ok", 0),
			check("read", "ok", 0), check("hash", "ok", 0)}, Bad, "restore bad", "read ok"},
		{"failed restore, good hash, good restore", []*Verification{check("restore", "bad", 0), check("hash", "ok", 0),
			check("restore", "ok", 0)}, Complete, "", ""},
		{"whole failure, then a good sample", []*Verification{check("read", "bad", 0), check("read", "ok", 0.1)}, Bad, "read bad", ""},
		{"whole failure, then a good deeper sample", []*Verification{check("read", "bad", 0), check("pages", "ok", 0.99)}, Bad, "read bad", ""},
		{"failed sample, then a good sample", []*Verification{check("read", "bad", 0.1), check("read", "ok", 0.5)}, Bad, "read bad", ""},
		{"failed sample, then whole and good", []*Verification{check("read", "bad", 0.1), check("read", "ok", 1)}, Complete, "", ""},
		{"failed restore, then failed hash", []*Verification{check("restore", "bad", 0), check("hash", "bad", 0)}, Bad, "restore bad", ""},
		{"failed restore, failed hash, good read", []*Verification{check("restore", "bad", 0), check("hash", "bad", 0),
			check("read", "ok", 0)}, Bad, "restore bad", ""},
		{"failed hash, failed restore, good read", []*Verification{check("hash", "bad", 0), check("restore", "bad", 0),
			check("read", "ok", 0)}, Bad, "restore bad", ""},
		{"failed hash, failed read, good read", []*Verification{check("hash", "bad", 0), check("read", "bad", 0),
			check("read", "ok", 0)}, Complete, "", ""},
		{"failed, failed, failed, good", []*Verification{check("pages", "bad", 0), check("hash", "bad", 0), check("read", "bad", 0.2),
			check("pages", "ok", 0)}, Complete, "", ""},
		{"a failed sample behind a failed whole", []*Verification{check("read", "bad", 0), check("read", "bad", 0.1),
			check("read", "ok", 0.9)}, Bad, "read bad", ""},
		{"a level of a later version that failed", []*Verification{check("burn", "bad", 0), check("restore", "ok", 0)}, Bad, "burn bad", ""},
		{"and its good end", []*Verification{check("burn", "bad", 0), check("burn", "ok", 0)}, Complete, "", ""},
		{"a good level of a later version", []*Verification{check("hash", "bad", 0), check("burn", "ok", 0)}, Bad, "hash bad", ""},
		{"good restore, then good hash", []*Verification{check("restore", "ok", 0), check("hash", "ok", 0)}, Complete, "", "restore ok"},
		{"and again", []*Verification{check("restore", "ok", 0), check("read", "ok", 0), check("hash", "ok", 0)}, Complete, "", "restore ok"},
		{"whole, then sample", []*Verification{check("read", "ok", 0), check("read", "ok", 0.1)}, Complete, "", "read ok"},
		{"sample, then hash", []*Verification{check("read", "ok", 0.1), check("hash", "ok", 0)}, Complete, "", "read ok"},
		{"good restore, then failed hash", []*Verification{check("restore", "ok", 0), check("hash", "bad", 0)}, Bad, "", ""},
		{"good restore, failed hash, good hash", []*Verification{check("restore", "ok", 0), check("hash", "bad", 0),
			check("hash", "ok", 0)}, Complete, "", ""},
	} {
		sink := newMemory()
		r := repositories(t, sink)[0]
		b := job{stream: longStream(t)}.mustRun(t, "db1", r)
		for i, v := range test.checks {
			v.Time = began.Add(time.Duration(i) * time.Hour)
			if err := b.Record(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		b, err := r.Find(t.Context(), "db1", b.ID)
		if err != nil || b.Err != nil {
			t.Fatal(err, b.Err)
		}
		v := b.Verified
		if v == nil {
			v = new(Verification)
		}
		if b.State != test.state || host(v.Failure) != test.fails || host(v.Deeper) != test.deeper {
			t.Errorf("%s: got state %s, failure %q, deeper %q; want %s, %q, %q",
				test.name, b.State, host(v.Failure), host(v.Deeper), test.state, test.fails, test.deeper)
		}
		for _, kept := range []*Verification{v.Failure, v.Deeper} {
			if kept != nil && (kept.Failure != nil || kept.Deeper != nil || kept.Manifest != v.Manifest) {
				t.Errorf("%s: kept %+v", test.name, kept)
			}
		}
	}
}

func host(v *Verification) string {
	if v == nil {
		return ""
	}
	return v.Host
}

// TestRecordsThatAreReplaced: what can't be made out, or is about another manifest, is not taken over.
func TestRecordsThatAreReplaced(t *testing.T) {
	sink := newMemory()
	r := repositories(t, sink)[0]
	b := job{stream: longStream(t)}.mustRun(t, "db1", r)
	name := join("db1", b.ID, VerifiedObject)
	other, err := seal(&Verification{Level: "restore", Manifest: strings.Repeat("0", 64)})
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"damaged": []byte("x"), "about another manifest": other, "empty": nil,
		"no record": sealText(t, "{\n  \"level\": 5\n}")} {
		sink.put(name, data)
		if err := b.Record(t.Context(), check("hash", "ok", 0)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if b, err = r.Find(t.Context(), "db1", b.ID); err != nil || b.State != Complete || b.Verified == nil || b.Verified.Failure != nil {
			t.Errorf("%s: got %+v (%v)", what, b, err)
		}
	}
	// One that can't be read may hold a failure: it is not written over.
	if err := b.Record(t.Context(), check("restore", "bad", 0)); err != nil {
		t.Fatal(err)
	}
	failing := *b
	failing.Repository = through(r, faulty.New(faulty.Fault{Op: faulty.ReadAt, Pattern: "*/*/" + VerifiedObject, Err: errBoom}).Wrap(sink))
	if err := failing.Record(t.Context(), check("hash", "ok", 0)); !errors.Is(err, errBoom) {
		t.Errorf("got error %v, want %v", err, errBoom)
	}
	if b, err = r.Find(t.Context(), "db1", b.ID); err != nil || b.State != Bad {
		t.Errorf("got %+v (%v), want it bad", b, err)
	}
}

// TestVerificationMembers: what is not told is not there, and what later versions add is ignored.
func TestVerificationMembers(t *testing.T) {
	data, err := json.Marshal(check("hash", "ok", 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"sample", "pages", "tables", "rto_seconds", "server_version", "failure", "deeper"} {
		if strings.Contains(string(data), fmt.Sprintf("%q", member)) {
			t.Errorf("it has a member %q that says nothing", member)
		}
	}
	full := &Verification{Level: "restore", Sample: 0.5, Pages: 7, Tables: 3, RTO: 61.5, ServerVersion: "11.4.8", Failure: check("hash", "bad", 0)}
	if data, err = seal(full); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data[:len(data)-sealSize]), `"failure": {`, "\"later\": [1],\n  \"failure\": {\n    \"later\": 1,", 1)
	got := new(Verification)
	if err := unseal(sealText(t, text+"\n}"), got); err != nil {
		t.Fatal(err)
	}
	if got.Sample != 0.5 || got.Pages != 7 || got.Tables != 3 || got.RTO != 61.5 || got.ServerVersion != "11.4.8" || got.Passed() ||
		got.Failure.Level != "hash" {
		t.Errorf("got %+v", got)
	}
}
