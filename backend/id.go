package backend

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// ID names a conversation, an endpoint (its handle), a group, a stream or a
// message. It is a UUID of version 7: ids made later sort after ids made
// earlier, and within one process strictly so. Stores keep the 16 bytes in an
// order-preserving type.
type ID [16]byte

var lastID struct {
	sync.Mutex
	stamp uint64 // milliseconds << 12 | counter
}

// NewID returns an ID greater than every one this process made before.
func NewID() ID {
	var id ID
	rand.Read(id[8:]) // never fails: it aborts the program instead

	now := uint64(time.Now().UnixMilli()) << 12
	lastID.Lock()
	lastID.stamp = max(lastID.stamp+1, now) // the counter may run ahead of the clock
	stamp := lastID.stamp
	lastID.Unlock()

	binary.BigEndian.PutUint64(id[:8], stamp>>12<<16|0x7000|stamp&0xfff)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// DerivedID returns the ID of a name and a time, in milliseconds. It has a hash of the name where NewID has random
// bits. So all processes get the same one.
func DerivedID(at time.Time, name string) (id ID) {
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000|binary.BigEndian.Uint64(sum[:8])&0xfff)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseID reads the form that String writes.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("parley: %q is not an id: want 8-4-4-4-12 hexadecimal digits", s)
	}
	for i, part := range [...]struct{ from, to, at int }{{0, 8, 0}, {9, 13, 4}, {14, 18, 6}, {19, 23, 8}, {24, 36, 10}} {
		if _, err := hex.Decode(id[part.at:], []byte(s[part.from:part.to])); err != nil {
			return ID{}, fmt.Errorf("parley: %q is not an id: part %d: %w", s, i+1, err)
		}
	}
	return id, nil
}

// String returns the id in the usual form of a UUID.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// IsZero reports whether the id is the zero value, which names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText makes ids readable in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := ParseID(string(text))
	if err == nil {
		*id = v
	}
	return err
}
