package xbstream_test

import (
	"encoding/binary"
	"hash/crc32"
	"path"
	"strings"

	"github.com/mbwrap/mbwrap/xbstream"
)

// A model is a second implementation of the rules, as plain as can be, on a whole stream in memory. The tests compare all
// else with it.
type model struct {
	rest     []byte
	pos      map[string]uint64 // open files
	ended    map[string]bool
	doubt    bool
	skipped  int
	versions int
	chunks   []modelChunk // shown to a handler
}

type modelChunk struct {
	typ           xbstream.Type
	path, newPath string
	payload       string
}

// judge returns the kind of the first fault of a stream, 0 if there is none, for ExpectAny.
func (m *model) judge(stream []byte) xbstream.Kind {
	m.rest, m.pos, m.ended = stream, map[string]uint64{}, map[string]bool{}
	if len(stream) == 0 {
		return xbstream.KindEmpty
	}
	for len(m.rest) > 0 {
		if kind := m.chunk(); kind != 0 {
			return kind
		}
	}
	if m.doubt {
		return xbstream.KindRepeated
	}
	if len(m.pos) > 0 {
		return xbstream.KindUnended
	}
	return 0
}

// take cuts n bytes off the rest; ok is false if there are fewer.
func (m *model) take(n uint64) (b []byte, ok bool) {
	if n > uint64(len(m.rest)) {
		return nil, false
	}
	b, m.rest = m.rest[:n], m.rest[n:]
	return b, true
}

func (m *model) chunk() xbstream.Kind {
	if n := min(len(m.rest), 8); string(m.rest[:n]) != magic[:n] {
		return xbstream.KindMagic
	}
	fixed, ok := m.take(14)
	if !ok {
		return xbstream.KindTruncated
	}
	n := binary.LittleEndian.Uint32(fixed[10:])
	if n < 1 || n > 511 {
		return xbstream.KindPath
	}
	name, ok := m.take(uint64(n))
	if !ok {
		return xbstream.KindTruncated
	}
	flags := fixed[8]
	if flags > 3 {
		return xbstream.KindFlags
	}
	c := modelChunk{typ: xbstream.Type(fixed[9]), path: string(name)}
	switch fixed[9] {
	case 'E':
		m.chunks = append(m.chunks, c)
		return m.end(flags, c.path)
	case 'D':
		m.chunks = append(m.chunks, c)
		return m.remove(c.path)
	case 'R':
		return m.rename(c)
	case 'S':
		if len(m.rest) >= 16 && string(m.rest[8:16]) != magic || len(m.rest) > 8 && len(m.rest) < 16 {
			c.typ = xbstream.TypeSparse
			return m.sparse(flags, c)
		}
		return m.seek(flags, c)
	case 'P':
		return m.payload(flags, c, false)
	}
	if flags&1 == 0 {
		return xbstream.KindType
	}
	m.skipped++
	return m.payload(flags, c, true)
}

func legal(name string) bool {
	return len(name) <= 511 && !strings.Contains(name, "\x00") && path.Clean("/"+name) == "/"+name && name != "" && name != "/" && !strings.HasSuffix(name, "*")
}

// open opens the file if it is not open and says what is wrong with that.
func (m *model) open(flags byte, name string, isEnd bool) xbstream.Kind {
	if _, ok := m.pos[name]; ok {
		return 0
	}
	if !legal(name) {
		return xbstream.KindPath
	}
	if flags&2 != 0 {
		m.doubt = false
	} else if m.doubt && !isEnd {
		return xbstream.KindRepeated
	}
	if m.ended[name] && flags&2 == 0 {
		if !isEnd {
			return xbstream.KindRepeated
		}
		m.doubt = true
	}
	delete(m.ended, name)
	m.pos[name] = 0
	m.versions++
	return 0
}

func (m *model) end(flags byte, name string) xbstream.Kind {
	if kind := m.open(flags, name, true); kind != 0 {
		return kind
	}
	delete(m.pos, name)
	m.ended[name] = true
	return 0
}

func (m *model) seek(flags byte, c modelChunk) xbstream.Kind {
	b, ok := m.take(8)
	if !ok {
		return xbstream.KindTruncated
	}
	offset := binary.LittleEndian.Uint64(b)
	if offset > 1<<62 {
		return xbstream.KindLimit
	}
	m.chunks = append(m.chunks, c)
	if kind := m.open(flags, c.path, false); kind != 0 {
		return kind
	}
	m.pos[c.path] = offset
	return 0
}

func (m *model) payload(flags byte, c modelChunk, skip bool) xbstream.Kind {
	b, ok := m.take(20)
	if !ok {
		return xbstream.KindTruncated
	}
	size, offset, crc := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:])
	if size > 1<<62 || offset > 1<<62 || size+offset > 1<<62 {
		return xbstream.KindLimit
	}
	if skip && !legal(c.path) {
		return xbstream.KindPath
	}
	if !skip {
		if kind := m.advance(flags, c.path, offset, size); kind != 0 {
			return kind
		}
	}
	return m.body(c, size, crc, nil, skip)
}

func (m *model) advance(flags byte, name string, offset, by uint64) xbstream.Kind {
	if kind := m.open(flags, name, false); kind != 0 {
		return kind
	}
	if m.pos[name] != offset {
		return xbstream.KindOrder
	}
	m.pos[name] += by
	return 0
}

func (m *model) body(c modelChunk, size uint64, crc uint32, before []byte, skip bool) xbstream.Kind {
	data, ok := m.take(size)
	if !ok {
		return xbstream.KindTruncated
	}
	if crc32.ChecksumIEEE(join(before, data)) != crc {
		return xbstream.KindChecksum
	}
	if !skip {
		c.payload = string(data)
		m.chunks = append(m.chunks, c)
	}
	return 0
}

func (m *model) sparse(flags byte, c modelChunk) xbstream.Kind {
	if len(m.rest) < 16 {
		return xbstream.KindTruncated
	}
	b, ok := m.take(24)
	if !ok {
		return xbstream.KindTruncated
	}
	n, size, offset, crc := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint32(b[20:])
	if n > 1<<18 || size > 1<<62 || offset > 1<<62 || size+offset > 1<<62 {
		return xbstream.KindLimit
	}
	table, ok := m.take(uint64(n) * 8)
	if !ok {
		return xbstream.KindTruncated
	}
	var holes, bytes uint64
	for i := 0; i < len(table); i += 8 {
		holes += uint64(binary.LittleEndian.Uint32(table[i:]))
		bytes += uint64(binary.LittleEndian.Uint32(table[i+4:]))
	}
	if bytes != size {
		return xbstream.KindSparse
	}
	if offset+size+holes > 1<<62 {
		return xbstream.KindLimit
	}
	if kind := m.advance(flags, c.path, offset, size+holes); kind != 0 {
		return kind
	}
	return m.body(c, size, crc, table, false)
}

func (m *model) rename(c modelChunk) xbstream.Kind {
	b, ok := m.take(4)
	if !ok {
		return xbstream.KindTruncated
	}
	n := binary.LittleEndian.Uint32(b)
	if n < 1 || n > 511 {
		return xbstream.KindPath
	}
	name, ok := m.take(uint64(n))
	if !ok {
		return xbstream.KindTruncated
	}
	c.newPath = string(name)
	for _, name := range []string{c.path, c.newPath} {
		if !legal(name) {
			return xbstream.KindPath
		}
		if _, open := m.pos[name]; open {
			return xbstream.KindOpen
		}
	}
	m.chunks = append(m.chunks, c)
	if m.ended[c.path] {
		delete(m.ended, c.path)
		m.ended[c.newPath] = true
	}
	return 0
}

func (m *model) remove(name string) xbstream.Kind {
	prefix, all := strings.CutSuffix(name, "*")
	if name == "*" || all && !legal(prefix+"x") || !all && !legal(name) {
		return xbstream.KindPath
	}
	below := func(file string) bool {
		return file == name || strings.HasPrefix(file, name+"/") || all && strings.HasPrefix(file, prefix) && !strings.Contains(file[len(prefix):], "/")
	}
	for file := range m.pos {
		if below(file) {
			return xbstream.KindOpen
		}
	}
	if !all && m.ended[name] {
		delete(m.ended, name)
		return 0
	}
	for file := range m.ended {
		if below(file) {
			delete(m.ended, file)
		}
	}
	return 0
}
