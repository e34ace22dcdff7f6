package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// sealText seals a JSON object that is given as text.
func sealText(t testing.TB, object string) []byte {
	t.Helper()
	body, found := strings.CutSuffix(object, "\n}")
	if !found {
		t.Fatalf("%q is not an object", object)
	}
	return []byte(body + sealHead + sumOf([]byte(body)) + sealTail)
}

// example returns a manifest that passes every check.
func example() *Manifest {
	sum := strings.Repeat("0123456789abcdef", 4)
	return &Manifest{
		Format: Format, ID: beganID, Server: "db1", Type: Full, Started: began, Finished: began.Add(time.Minute),
		Mbwrap: "1.0.0", Host: "db1.example", Source: "tool", ToolVersion: "10.11.19", ServerVersion: "10.11.19-MariaDB",
		Codec: "zstd", Level: "auto", Levels: []LevelCount{{1, 2}}, RawBytes: 5000, StoredBytes: 3000, BlockSize: 4096,
		Blocks: 2, Chunks: 9, Files: 3, ToLSN: 46000, LastLSN: 46100, Binlog: &Binlog{"mysql-bin.000007", 344, "0-1-9"},
		Volumes:  []Object{{"data.0001.xbs.zst", 1000, sum}, {"data.0002.xbs.zst", 2000, sum}},
		Index:    Object{"index.zst", 100, sum},
		Log:      Object{"backup.log.zst", 50, sum},
		Timings:  Timings{Total: 60, Bottleneck: "source"},
		Warnings: []string{},
	}
}

// encryptedExample is one of an encrypted backup.
func encryptedExample() *Manifest {
	m := example()
	m.Encrypted, m.Recipients, m.Key = true, []string{"age1x"}, &Object{KeyObject, 300, m.Index.SHA256}
	for _, o := range []*Object{&m.Volumes[0], &m.Volumes[1], &m.Index, &m.Log} {
		o.Name += sealedSuffix
	}
	return m
}

// someMAC stands for the code that a key makes.
func someMAC(data []byte) []byte {
	sum := sha256.Sum256(append([]byte("a key"), data...))
	return sum[:]
}

func TestEncryptedManifestRoundTrip(t *testing.T) {
	want := encryptedExample()
	data, err := encodeManifest(want, someMAC)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeManifest(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v (%v), want %+v", got, err, want)
	}
	if again, err := encodeManifest(got, someMAC); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the second encoding differs from the first (%v)", err)
	}
	if !checkMAC(data, someMAC) {
		t.Error("its code does not fit")
	}
	// The code covers every byte before it, and its place is fixed from the end.
	body, _, _ := cutMAC(data)
	for i := range body {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if checkMAC(bad, someMAC) {
			t.Errorf("byte %d changed: its code still fits", i)
		}
	}
	for i := len(body); i < len(body)+macSize; i++ {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if checkMAC(bad, someMAC) {
			t.Errorf("byte %d of the code changed: it still fits", i-len(body))
		}
	}
	for n := range macSize + sealSize {
		if checkMAC(data[:n], someMAC) || checkMAC(data[len(data)-n:], someMAC) {
			t.Errorf("%d bytes have a code that fits", n)
		}
	}
	sums := string(got.Sums())
	want3 := got.Key.SHA256 + "  key.age\n" + got.Index.SHA256 + "  index.zst.age\n"
	if !strings.Contains(sums, "data.0002.xbs.zst.age\n"+want3) || strings.Count(sums, "\n") != 5 {
		t.Errorf("got sums %q", sums)
	}
	if b := (&Backup{Manifest: got}); b.SumsFit(example().Sums()) || !b.SumsFit([]byte(sums)) || (&Backup{}).SumsFit(nil) {
		t.Error("SumsFit does not know what fits")
	}
}

func TestManifestRoundTrip(t *testing.T) {
	want := example()
	data, err := encodeManifest(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeManifest(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v (%v), want %+v", got, err, want)
	}
	if again, err := encodeManifest(got, nil); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the second encoding differs from the first (%v)", err)
	}
	// Lists are there even when they are empty, for readers in other languages.
	for _, member := range []string{`"tool_options": []`, `"recipients": []`, `"warnings": []`, `"parent": null`} {
		if !bytes.Contains(data, []byte(member)) {
			t.Errorf("the manifest has no %s", member)
		}
	}
	var foreign map[string]any
	if err := json.Unmarshal(data, &foreign); err != nil || foreign["sha256"] == nil {
		t.Errorf("it is no plain JSON document with its seal (%v)", err)
	}
}

func TestManifestTimesAreUTC(t *testing.T) {
	m := example()
	zone := time.FixedZone("somewhere", 5*3600)
	m.Started, m.Finished = m.Started.In(zone), m.Finished.In(zone)
	data, err := encodeManifest(m, nil)
	if err != nil || !bytes.Contains(data, []byte(`"started": "2026-11-30T18:01:02Z"`)) {
		t.Errorf("got %s (%v), want times in UTC", data, err)
	}
}

func TestSums(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	want := sum + "  data.0001.xbs.zst\n" + sum + "  data.0002.xbs.zst\n" + sum + "  index.zst\n" + sum + "  backup.log.zst\n"
	if got := string(example().Sums()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// sealed is one of each sealed document, with the check that reads it.
type sealed struct {
	name  string
	data  []byte
	check func([]byte) error
}

func sealedDocuments(t *testing.T) []sealed {
	t.Helper()
	manifest, err := encodeManifest(example(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mark, err := seal(repositoryMark{repositoryKind, Format})
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := encodeManifest(encryptedExample(), someMAC)
	if err != nil {
		t.Fatal(err)
	}
	change, err := sealMAC(&keyChange{Format: 1, Recipients: []string{"age1x"}, Changed: began, Keys: []Object{{KeyObject, 300, sumOf(nil)}}}, someMAC)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := seal(&Verification{Time: began, Level: "read", OK: true, Problems: []string{}, Manifest: sumOf(manifest)})
	if err != nil {
		t.Fatal(err)
	}
	return []sealed{
		{ManifestObject, manifest, func(data []byte) error {
			_, err := decodeManifest(data)
			if err != nil && !errors.Is(err, ErrManifest) {
				t.Errorf("got error %v, want %v", err, ErrManifest)
			}
			return err
		}},
		{"encrypted " + ManifestObject, encrypted, func(data []byte) error {
			_, err := decodeManifest(data)
			if err != nil && !errors.Is(err, ErrManifest) {
				t.Errorf("got error %v, want %v", err, ErrManifest)
			}
			return err
		}},
		{RekeyObject, change, func(data []byte) error {
			_, err := decodeChange(data)
			if err != nil && !errors.Is(err, ErrAltered) {
				t.Errorf("got error %v, want %v", err, ErrAltered)
			}
			return err
		}},
		{RepositoryObject, mark, func(data []byte) error {
			sink := newMemory()
			sink.put(RepositoryObject, data)
			_, err := Open(t.Context(), sink, "A")
			if err != nil && !errors.Is(err, ErrNotRepository) {
				t.Errorf("got error %v, want %v", err, ErrNotRepository)
			}
			return err
		}},
		{VerifiedObject, verified, func(data []byte) error {
			sink := newMemory()
			sink.put(join("db1", beganID, ManifestObject), manifest)
			sink.put(join("db1", beganID, VerifiedObject), data)
			b, err := through(&Repository{}, sink).Find(t.Context(), "db1", beganID)
			if err != nil {
				t.Fatal(err)
			}
			if (b.Err == nil) != (b.Verified != nil) || !b.Usable() {
				t.Errorf("got %+v with error %v in state %s", b.Verified, b.Err, b.State)
			}
			return b.Err
		}},
	}
}

// TestSealFindsEveryDamage flips every bit, cuts at every byte, and appends.
func TestSealFindsEveryDamage(t *testing.T) {
	for _, doc := range sealedDocuments(t) {
		t.Run(doc.name, func(t *testing.T) {
			if err := doc.check(doc.data); err != nil {
				t.Fatalf("the undamaged one: %v", err)
			}
			step := 1
			if raceDetector {
				step = 3
			}
			for i := 0; i < 8*len(doc.data); i += step {
				bad := bytes.Clone(doc.data)
				bad[i/8] ^= 1 << (i % 8)
				if doc.check(bad) == nil {
					t.Errorf("bit %d flipped: not found", i)
				}
			}
			for n := range doc.data {
				if doc.check(doc.data[:n]) == nil {
					t.Errorf("cut at %d: not found", n)
				}
				if doc.check(doc.data[n+1:]) == nil {
					t.Errorf("begins at %d: not found", n+1)
				}
			}
			for _, more := range []string{"\n", "\x00", " ", "}", string(doc.data)} {
				if doc.check(append(bytes.Clone(doc.data), more...)) == nil {
					t.Errorf("%q appended: not found", more)
				}
			}
		})
	}
}

// TestUnknownMembersAreAccepted: later versions may add members without a new format number.
func TestUnknownMembersAreAccepted(t *testing.T) {
	for _, doc := range sealedDocuments(t) {
		plain, code := string(doc.data[:len(doc.data)-sealSize]), ""
		if body, member, ok := cutMAC(doc.data); ok {
			plain, code = string(body), string(member)
		}
		more := plain + ",\n  \"later\": {\n    \"volumes\": [\n      1\n    ]\n  }" + code + "\n}"
		if err := doc.check(sealText(t, more)); err != nil {
			t.Errorf("%s with an unknown member: %v", doc.name, err)
		}
		if err := doc.check([]byte(more)); err == nil {
			t.Errorf("%s with an unknown member and no seal was accepted", doc.name)
		}
	}
}

func TestNewerFormatsAreRefused(t *testing.T) {
	for _, text := range []string{
		"{\n  \"format\": 2\n}",
		"{\n  \"format\": 2,\n  \"volumes\": \"elsewhere\",\n  \"id\": 7\n}", // members may have changed
		"{\n  \"format\": 1000\n}",
	} {
		if _, err := decodeManifest(sealText(t, text)); !errors.Is(err, ErrFormat) {
			t.Errorf("manifest %s: got error %v, want %v", text, err, ErrFormat)
		}
	}
	sink := newMemory()
	sink.put(RepositoryObject, sealText(t, "{\n  \"repository\": \"mbwrap\",\n  \"format\": 2\n}"))
	if _, err := Open(t.Context(), sink, "A"); !errors.Is(err, ErrFormat) {
		t.Errorf("repository: got error %v, want %v", err, ErrFormat)
	}
	if _, _, err := Init(t.Context(), sink, "A"); !errors.Is(err, ErrFormat) {
		t.Errorf("init: got error %v, want %v", err, ErrFormat)
	}
}

// TestHostileManifest have a right seal: whoever can write to the repository can make one.
func TestHostileManifest(t *testing.T) {
	const most = 1<<63 - 1
	for _, test := range []struct {
		name string
		edit func(*Manifest)
	}{
		{"no format", func(m *Manifest) { m.Format = 0 }},
		{"negative format", func(m *Manifest) { m.Format = -1 }},
		{"no id", func(m *Manifest) { m.ID = "" }},
		{"id that leads away", func(m *Manifest) { m.ID = "../" + m.ID }},
		{"id without type", func(m *Manifest) { m.ID = "20261130T180102Z" }},
		{"id of no time", func(m *Manifest) { m.ID = "20261399T180102Z-full" }},
		{"id with a line end", func(m *Manifest) { m.ID += "\n" }},
		{"type that is not the id's", func(m *Manifest) { m.Type = Incremental }},
		{"unknown type", func(m *Manifest) { m.Type = "half" }},
		{"server that leads away", func(m *Manifest) { m.Server = "../db1" }},
		{"no server", func(m *Manifest) { m.Server = "" }},
		{"parent that leads away", func(m *Manifest) { m.Parent = new("../x") }},
		{"no volumes", func(m *Manifest) { m.Volumes = nil }},
		{"volume in a folder", func(m *Manifest) { m.Volumes[0].Name = "a/b" }},
		{"volume in the parent", func(m *Manifest) { m.Volumes[0].Name = "../x" }},
		{"absolute volume", func(m *Manifest) { m.Volumes[0].Name = "/etc/passwd" }},
		{"volume dot", func(m *Manifest) { m.Volumes[0].Name = "." }},
		{"volume dot dot", func(m *Manifest) { m.Volumes[0].Name = ".." }},
		{"volume without name", func(m *Manifest) { m.Volumes[0].Name = "" }},
		{"volume hidden", func(m *Manifest) { m.Volumes[0].Name = ".mbwrap-lock-lock" }},
		{"volume that looks like an option", func(m *Manifest) { m.Volumes[0].Name = "-rf" }},
		{"volume with a backslash", func(m *Manifest) { m.Volumes[0].Name = `a\b` }},
		{"volume with a line end", func(m *Manifest) { m.Volumes[0].Name = "a\nb" }},
		{"volume with a NUL", func(m *Manifest) { m.Volumes[0].Name = "a\x00" }},
		{"volume with an escape", func(m *Manifest) { m.Volumes[0].Name = "a\x1b[2J" }},
		{"volume with a long name", func(m *Manifest) { m.Volumes[0].Name = strings.Repeat("a", 300) }},
		{"manifest as a volume", func(m *Manifest) { m.Volumes[0].Name = ManifestObject }},
		{"sums as the index", func(m *Manifest) { m.Index.Name = SumsObject }},
		{"verification as the log", func(m *Manifest) { m.Log.Name = VerifiedObject }},
		{"volume twice", func(m *Manifest) { m.Volumes[1].Name = m.Volumes[0].Name }},
		{"index that is a volume", func(m *Manifest) { m.Index.Name = m.Volumes[0].Name }},
		{"index and log the same", func(m *Manifest) { m.Log.Name = m.Index.Name }},
		{"volumes in another order", func(m *Manifest) { m.Volumes[0].Name, m.Volumes[1].Name = m.Volumes[1].Name, m.Volumes[0].Name }},
		{"volume left out", func(m *Manifest) { m.Volumes, m.StoredBytes = m.Volumes[1:], 2000 }},
		{"negative volume", func(m *Manifest) { m.Volumes[0].Size, m.StoredBytes = -1, 1999 }},
		{"huge volume", func(m *Manifest) { m.Volumes[0].Size = most }},
		{"volumes whose sum overflows", func(m *Manifest) {
			for i := 2; i < 300; i++ {
				m.Volumes = append(m.Volumes, Object{fmt.Sprintf("data.%04d.xbs", i+1), 1 << 56, m.Index.SHA256})
			}
		}},
		{"volumes of another sum", func(m *Manifest) { m.StoredBytes++ }},
		{"negative index", func(m *Manifest) { m.Index.Size = -5 }},
		{"sum of wrong length", func(m *Manifest) { m.Index.SHA256 = "abc" }},
		{"sum in capitals", func(m *Manifest) { m.Index.SHA256 = strings.Repeat("A", 64) }},
		{"sum with a line end", func(m *Manifest) { m.Index.SHA256 += "\n" }},
		{"no sum", func(m *Manifest) { m.Log.SHA256 = "" }},
		{"negative raw bytes", func(m *Manifest) { m.RawBytes = -1 }},
		{"huge raw bytes", func(m *Manifest) { m.RawBytes = most }},
		{"negative stored bytes", func(m *Manifest) { m.StoredBytes = -1 }},
		{"negative block size", func(m *Manifest) { m.BlockSize = -1 }},
		{"negative blocks", func(m *Manifest) { m.Blocks = -1 }},
		{"huge blocks", func(m *Manifest) { m.Blocks = most }},
		{"huge chunks", func(m *Manifest) { m.Chunks = most }},
		{"negative files", func(m *Manifest) { m.Files = -1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := example()
			test.edit(m)
			data, err := encodeManifest(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodeManifest(data); !errors.Is(err, ErrManifest) {
				t.Errorf("got error %v, want %v", err, ErrManifest)
			}
		})
	}
}

func TestManifestsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"{\n}", "{\n  \"format\": \"1\"\n}", "{\n  \"format\": 1.5\n}", "{\n  \"format\": 1e99\n}", "[\n}", "\n}",
		"{\n  \"format\": 1,\n  \"volumes\": 5\n}", "{\n  \"format\": 1\n  \"id\": 2\n}",
	} {
		if _, err := decodeManifest(sealText(t, text)); !errors.Is(err, ErrManifest) {
			t.Errorf("%q: got error %v, want %v", text, err, ErrManifest)
		}
	}
}

func TestSealRefusesWhatIsNoObject(t *testing.T) {
	for _, v := range []any{7, []int{1}, struct{}{}, "text", func() {}} {
		if data, err := seal(v); err == nil {
			t.Errorf("seal of %T: got %q and no error", v, data)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"db1", "a", "DB-1.example.com", "_x", "9", strings.Repeat("a", 128)} {
		if err := CheckServer(name); err != nil {
			t.Errorf("server %q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "-a", ".a", "a/b", "a b", "a\n", "ä", "a\x00", strings.Repeat("a", 129)} {
		if err := CheckServer(name); !errors.Is(err, ErrServerName) {
			t.Errorf("server %q: got error %v, want %v", name, err, ErrServerName)
		}
	}
	for _, typ := range []string{Full, Incremental} {
		id := newID(began.In(time.FixedZone("east", 3600)), typ)
		started, got, ok := ParseID(id)
		if !ok || got != typ || !started.Equal(began) {
			t.Errorf("%q: got %v, %q, %v; want %v, %q", id, started, got, ok, began, typ)
		}
	}
	for _, id := range []string{"", "latest", "20261130T180102Z", "20261130T180102Z-half", "20261130T180102Z-full/x", "20261330T180102Z-full",
		"20261130T180102Z-full\n", "x20261130T180102Z-full"} {
		if _, _, ok := ParseID(id); ok {
			t.Errorf("%q was taken for an ID", id)
		}
	}
}

// FuzzManifest seals what the fuzzer makes, so that it gets behind the seal. What is accepted must encode and decode to
// itself, and name only objects inside its folder.
func FuzzManifest(f *testing.F) {
	data, err := encodeManifest(example(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:len(data)-sealSize])
	if data, err = encodeManifest(encryptedExample(), someMAC); err != nil {
		f.Fatal(err)
	}
	body, _, _ := cutMAC(data)
	f.Add(body)
	f.Add(data[:len(data)-sealSize])
	f.Add([]byte("{\n  \"format\": 2"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeManifest(body); err == nil && bytes.Count(body, []byte(sealHead)) == 0 {
			t.Fatal("accepted without a seal")
		}
		m, err := decodeManifest([]byte(string(body) + sealHead + sumOf(body) + sealTail))
		if err != nil {
			body = append(bytes.Clone(body), macMember(body, someMAC)...)
			m, err = decodeManifest([]byte(string(body) + sealHead + sumOf(body) + sealTail))
		}
		if err != nil {
			if !errors.Is(err, ErrManifest) && !errors.Is(err, ErrFormat) {
				t.Fatalf("got error %v", err)
			}
			return
		}
		for _, o := range m.Objects() {
			if strings.ContainsAny(o.Name, "/\\\n\x00") || strings.HasPrefix(o.Name, ".") || o.Size < 0 {
				t.Fatalf("accepted object %+v", o)
			}
		}
		data, err := encodeManifest(m, someMAC)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeManifest(data)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("got %+v (%v), want %+v", again, err, m)
		}
	})
}
