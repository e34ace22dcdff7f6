package gendata

// random is a splitmix64 generator: tiny, fast, and the same everywhere. Not for secrets.
type random uint64

// newRandom returns the generator of row i of a table. Rows are independent of each other, so they can be made in any
// order and by several goroutines.
func newRandom(seed uint64, table string, i int) random {
	h := seed
	for _, c := range []byte(table) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return random(mix(h ^ mix(uint64(i)+1)))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// below returns a number in [0, n).
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

// between returns a number in [low, high].
func (r *random) between(low, high int) int { return low + r.below(high-low+1) }

// skewed returns a number in [0, n) that is small more often than not, as real choices are.
func (r *random) skewed(n int) int {
	a, b := r.below(n), r.below(n)
	return a * b / n
}

func pick(r *random, from []string) string { return from[r.skewed(len(from))] }

// pairs holds "00" to "99".
const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354" +
	"5556575859606162636465666768697071727374757677787980818283848586878889909192939495969798" + "99"

// appendDigits appends the n lowest decimal digits of v, n <= 20.
func appendDigits(dst []byte, v uint64, n int) []byte {
	from := len(dst)
	dst = append(dst, "00000000000000000000"[:n]...)
	at := len(dst)
	for ; at-from >= 2; v /= 100 {
		at -= 2
		p := v % 100 * 2
		dst[at], dst[at+1] = pairs[p], pairs[p+1]
	}
	if at > from {
		dst[from] = byte('0' + v%10)
	}
	return dst
}
