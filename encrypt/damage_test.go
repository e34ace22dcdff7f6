package encrypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"filippo.io/age"
)

// regions tells where the parts of a sealed file begin: header, nonce, chunks.
func regions(sealed []byte) (header int) {
	return bytes.Index(sealed, []byte("\n--- ")) + len("\n--- ") + 43 + 1
}

// TestEveryByteCounts changes every byte of a small file, in every part of it, and reads it in every way. Under the
// backup's own key each change is damage; under an operator's identity a changed stanza is somebody else's.
func TestEveryByteCounts(t *testing.T) {
	plain := []byte("small, but with a header, a stanza, a MAC, a nonce, a body and a tag")
	for _, c := range []struct {
		name        string
		postQuantum bool
		step        int // a post-quantum stanza is long, and each of its letters as good as the next
	}{{"X25519", false, 1}, {"post-quantum", true, 7}} {
		t.Run(c.name, func(t *testing.T) {
			key := newKey(t, c.postQuantum)
			sealed := sealAll(t, key, plain)
			header := regions(sealed)
			for i := 0; i < len(sealed); i += c.step {
				changed := bytes.Clone(sealed)
				changed[i] ^= 1
				wantError(t, key, changed, plain, ErrDamaged)
				checkOperatorsError(t, key.secret().identities, changed, i, header)
				changed[i] ^= 0x81
				if got, err := openAllAt(key, changed); !errors.Is(err, ErrDamaged) || len(got) > 0 {
					t.Errorf("high bit of byte %d: got %d bytes and error %v, want ErrDamaged", i, len(got), err)
				}
			}
		})
	}
}

// checkOperatorsError checks the error of a file whose i-th byte is changed, under the identity of an operator.
func checkOperatorsError(t *testing.T, ids *Identities, changed []byte, i, header int) {
	t.Helper()
	_, err := openAll(ids, changed)
	switch {
	case i < len(intro) && errors.Is(err, ErrNotSealed):
	case i >= len(intro) && i < header && errors.Is(err, ErrNoMatch) && !errors.Is(err, ErrDamaged):
	case i >= len(intro) && errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoMatch) && !errors.Is(err, ErrNotSealed):
	default:
		t.Errorf("byte %d of %d (header ends at %d): got error %v", i, len(changed), header, err)
	}
}

func TestEveryCutIsFound(t *testing.T) {
	plain := []byte("it ends here, and nowhere else")
	for _, postQuantum := range []bool{false, true} {
		key := newKey(t, postQuantum)
		for _, plain := range [][]byte{plain, nil} {
			sealed := sealAll(t, key, plain)
			for n := range sealed {
				wantError(t, key, sealed[:n], plain, ErrDamaged)
			}
		}
	}
}

func TestEveryCutOfArmourIsFound(t *testing.T) {
	key := newKey(t, false)
	plain := []byte("in letters")
	sealed := armour(t, sealAll(t, key, plain))
	for n := range len(sealed) - 1 { // the last line feed may go
		if got, err := openAll(key, sealed[:n]); !errors.Is(err, ErrDamaged) || !bytes.HasPrefix(plain, got) {
			t.Errorf("cut at %d of %d: got %q and error %v, want ErrDamaged", n, len(sealed), got, err)
		}
	}
	for i := range sealed[:len(sealed)-1] {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if got, err := openAll(key, changed); !errors.Is(err, ErrDamaged) || !bytes.HasPrefix(plain, got) {
			t.Errorf("byte %d of %d changed: got %q and error %v, want ErrDamaged", i, len(sealed), got, err)
		}
	}
}

func TestWhatIsAppendedIsFound(t *testing.T) {
	key := newKey(t, false)
	for _, size := range []int{0, 10, chunkSize, chunkSize + 1} {
		plain := noise(size, 13)
		sealed := sealAll(t, key, plain)
		for _, tail := range [][]byte{{0}, noise(15, 1), noise(16, 1), noise(17, 1), noise(storedSize, 1), sealed, noise(3*storedSize, 1)} {
			wantError(t, key, append(bytes.Clone(sealed), tail...), plain, ErrDamaged)
		}
	}
}

// TestCutsAndFlipsOfChunks: the same for a file of several chunks, at the places that matter.
func TestCutsAndFlipsOfChunks(t *testing.T) {
	key := newKey(t, false)
	for _, size := range []int{2*chunkSize + 100, 3 * chunkSize} {
		plain := noise(size, 14)
		sealed := sealAll(t, key, plain)
		payload := regions(sealed) + nonceSize
		for chunk := range 3 {
			for _, d := range []int{0, 1, 15, 16, 17, storedSize / 2, storedSize - 17, storedSize - 16, storedSize - 1} {
				at := payload + chunk*storedSize + d
				if at >= len(sealed) {
					continue
				}
				wantError(t, key, sealed[:at], plain, ErrDamaged)
				changed := bytes.Clone(sealed)
				changed[at] ^= 0x10
				wantError(t, key, changed, plain, ErrDamaged)
			}
		}
	}
}

// TestChunksKeepTheirPlaces: chunks can't change places, be doubled, left out or come from another file of the key.
func TestChunksKeepTheirPlaces(t *testing.T) {
	key := newKey(t, false)
	plain := noise(4*chunkSize, 15)
	sealed := sealAll(t, key, plain)
	other := sealAll(t, key, noise(4*chunkSize, 16))
	payload := regions(sealed) + nonceSize
	head, chunks := sealed[:payload], make([][]byte, 4)
	for i := range chunks {
		chunks[i] = sealed[payload+i*storedSize:][:storedSize]
	}
	foreign := other[payload+storedSize:][:storedSize]
	for name, order := range map[string][][]byte{
		"swapped":          {chunks[1], chunks[0], chunks[2], chunks[3]},
		"doubled":          {chunks[0], chunks[0], chunks[2], chunks[3]},
		"left out":         {chunks[0], chunks[2], chunks[3]},
		"last one first":   {chunks[3], chunks[0], chunks[1], chunks[2]},
		"of another file":  {chunks[0], foreign, chunks[2], chunks[3]},
		"last one gone":    {chunks[0], chunks[1], chunks[2]},
		"twice as long":    {chunks[0], chunks[1], chunks[2], chunks[3], chunks[0]},
		"header of other":  nil,
		"payload of other": nil,
	} {
		t.Run(name, func(t *testing.T) {
			file := append(bytes.Clone(head), bytes.Join(order, nil)...)
			switch name {
			case "header of other":
				file = append(bytes.Clone(other[:payload-nonceSize]), sealed[payload-nonceSize:]...)
			case "payload of other":
				file = append(bytes.Clone(head), other[payload:]...)
			}
			wantError(t, key, file, plain, ErrDamaged)
		})
	}
}

func TestFrontServesWhatIsIntact(t *testing.T) {
	key := newKey(t, false)
	plain := noise(6*chunkSize+1000, 17)
	whole := sealAll(t, key, plain)
	payload := regions(whole) + nonceSize
	exact := sealAll(t, key, plain[:6*chunkSize])
	flip := func(sealed []byte, at ...int) []byte {
		sealed = bytes.Clone(sealed)
		for _, i := range at {
			sealed[i] ^= 1
		}
		return sealed
	}
	for _, c := range []struct {
		name   string
		sealed []byte
		bad    []int64 // chunks that can't be read
		size   int64
	}{
		{"whole", whole, nil, 6*chunkSize + 1000},
		{"whole, last chunk full", exact, nil, 6 * chunkSize},
		{"last tag", flip(whole, len(whole)-1), []int64{6}, 6*chunkSize + 1001},
		{"cut in the last chunk", whole[:len(whole)-1], []int64{6}, 6*chunkSize + 1000},
		{"cut to 17 bytes of the last chunk", whole[:payload+6*storedSize+17], []int64{6}, 6*chunkSize + 2},
		{"cut to 16 bytes of the last chunk", whole[:payload+6*storedSize+16], []int64{6}, 6*chunkSize + 1},
		{"cut to one byte of the last chunk", whole[:payload+6*storedSize+1], []int64{6}, 6*chunkSize + 1},
		{"cut between chunks", whole[:payload+6*storedSize], []int64{6}, 6*chunkSize + 1},
		{"cut between earlier chunks", whole[:payload+3*storedSize], []int64{3, 4, 5, 6}, 3*chunkSize + 1},
		{"cut in the first chunk", whole[:payload+1000], []int64{0, 1, 2, 3, 4, 5, 6}, 985},
		{"no chunk at all", whole[:payload], []int64{0, 1, 2, 3, 4, 5, 6}, 1},
		{"middle and end", flip(whole[:len(whole)-5], payload+2*storedSize), []int64{2, 6}, 6*chunkSize + 996},
		{"middle only", flip(whole, payload+2*storedSize), []int64{2}, 6*chunkSize + 1000},
		{"last full chunk, its tag", flip(exact, len(exact)-1), []int64{5, 6}, 6*chunkSize + 1},
		{"appended to a full chunk", append(bytes.Clone(exact), 1, 2, 3), []int64{6}, 6*chunkSize + 1},
		{"appended chunk", append(bytes.Clone(exact), noise(storedSize, 1)...), []int64{6}, 7*chunkSize + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := key.OpenFrontAt(bytes.NewReader(c.sealed), int64(len(c.sealed)))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Size(); got != c.size {
				t.Errorf("size: got %d, want %d", got, c.size)
			}
			checkChunks(t, p, plain, c.bad)
			_, err = io.Copy(io.Discard, io.NewSectionReader(p, 0, p.Size()))
			if bad := len(c.bad) > 0; bad != errors.Is(err, ErrDamaged) || !bad && err != nil {
				t.Errorf("to the end: got error %v, want damage: %v", err, bad)
			}
		})
	}
}

// checkChunks reads every chunk on its own, small, and with its neighbours.
func checkChunks(t *testing.T, p *Plain, plain []byte, bad []int64) {
	t.Helper()
	isBad := map[int64]bool{}
	for _, n := range bad {
		isBad[n] = true
	}
	b := make([]byte, chunkSize)
	for n := int64(0); n*chunkSize < int64(len(plain)); n++ {
		off := n * chunkSize
		for _, part := range []struct{ off, length int64 }{{off, chunkSize}, {off + 7, 100}} {
			want := plain[part.off:min(part.off+part.length, int64(len(plain)))]
			if part.off+int64(len(want)) > p.Size() && !isBad[n] {
				continue // the shorter of two files
			}
			got, err := p.ReadAt(b[:len(want)], part.off)
			switch {
			case isBad[n] && part.off >= p.Size():
				if got != 0 || err != io.EOF {
					t.Errorf("chunk %d, behind the end: got %d bytes and error %v, want io.EOF", n, got, err)
				}
			case isBad[n]:
				if got != 0 || !errors.Is(err, ErrDamaged) {
					t.Errorf("chunk %d: got %d bytes and error %v, want none and ErrDamaged", n, got, err)
				}
			case err != nil || !bytes.Equal(b[:got], want):
				t.Errorf("chunk %d: got %d bytes and error %v, want %d", n, got, err, len(want))
			}
		}
	}
	if len(bad) > 0 && bad[0] > 0 {
		all := make([]byte, len(plain))
		got, err := p.ReadAt(all, 5)
		if want := bad[0]*chunkSize - 5; int64(got) != want || !errors.Is(err, ErrDamaged) || !bytes.Equal(all[:got], plain[5:5+got]) {
			t.Errorf("up to the damage: got %d bytes and error %v, want %d and ErrDamaged", got, err, want)
		}
	}
}

// TestFrontOfOddFiles: only who has the key can make these; they must not be taken for whole, nor end nowhere.
func TestFrontOfOddFiles(t *testing.T) {
	key := newKey(t, false)
	empty := sealAll(t, key, nil)
	payload := regions(empty) + nonceSize
	fileKey, err := age.DecryptHeader(empty[:regions(empty)], key.secret().identities.keys()...)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := payloadCipher(fileKey, empty[payload-nonceSize:payload])
	if err != nil {
		t.Fatal(err)
	}
	type chunk struct {
		size int
		last bool
	}
	for _, c := range []struct {
		name   string
		chunks []chunk
		read   int // bytes that can be read before the error
	}{
		{"empty chunk that is not the last", []chunk{{0, false}}, 0},
		{"empty last chunk", []chunk{{chunkSize, false}, {0, true}}, chunkSize},
		{"short chunk that is not the last", []chunk{{chunkSize, false}, {100, false}}, chunkSize + 100},
		{"full chunk that is not the last", []chunk{{chunkSize, false}, {chunkSize, false}}, 2 * chunkSize},
		{"two last chunks", []chunk{{chunkSize, true}, {chunkSize, false}}, 2 * chunkSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := bytes.Clone(empty[:payload])
			for n, one := range c.chunks {
				file = aead.Seal(file, chunkNonce(int64(n), one.last), make([]byte, one.size), nil)
			}
			for _, read := range []func(opener, []byte) ([]byte, error){openAll, openAllAt} {
				if _, err := read(key, file); !errors.Is(err, ErrDamaged) {
					t.Errorf("got error %v, want ErrDamaged", err)
				}
			}
			got, err := openAllFront(key, file)
			if len(got) != c.read || !errors.Is(err, ErrDamaged) {
				t.Errorf("front: got %d bytes and error %v, want %d and ErrDamaged", len(got), err, c.read)
			}
		})
	}
}

// TestDamageSaysWhere: reports need the place in the stored file.
func TestDamageSaysWhere(t *testing.T) {
	key := newKey(t, false)
	sealed := sealAll(t, key, noise(3*chunkSize, 18))
	p, err := key.OpenAt(bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		t.Fatal(err)
	}
	at := p.StoredOffset(chunkSize + 5)
	sealed[at+3] ^= 1
	_, err = p.ReadAt(make([]byte, chunkSize), 2*chunkSize-10)
	want := fmt.Sprintf("encrypted data is damaged: the chunk at stored offset %d, bytes 65536 to 131072 of the plaintext", at)
	if err == nil || err.Error() != want {
		t.Errorf("ReadAt: got error %v, want %s", err, want)
	}
	_, err = openAll(key, sealed)
	if want := "encrypted data is damaged: behind byte 65536 of the plaintext"; err == nil || !bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
		t.Errorf("Open: got error %v, want %s…", err, want)
	}
}
