package parley

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// dialogs are the dialogs of a Sender that this process knows of. Its knowledge may be out of date.
// The transaction that began a dialog may have rolled back, or another process may have retired the
// dialog. The store tells when it is used.
type dialogs struct {
	b       *Broker
	opt     SenderOptions
	ordered bool

	mu    sync.Mutex // guards what follows, and the slots
	slots []*slot    // the most recently used is the last
	keys  map[string]ID
}

// slot is a dialog for sends without key.
type slot struct {
	handle ID
	users  int       // transactions of ours that are open
	joined time.Time // used by a joined transaction, whose end we do not see
}

// joinedFor is how long a dialog is left to a joined transaction.
const joinedFor = time.Second

// take returns the most recently used slot that is free, or else a new slot. If there are
// too many slots, it returns the least recently used.
func (p *dialogs) take(joined bool) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	at := -1
	for i, s := range p.slots {
		if s.users == 0 && now.Sub(s.joined) > joinedFor {
			at = i
		}
	}
	var s *slot
	switch {
	case at >= 0:
		s = p.slots[at]
		p.slots = slices.Delete(p.slots, at, at+1)
	case len(p.slots) < p.opt.Slots:
		s = new(slot)
	default:
		s = p.slots[0]
		p.slots = slices.Delete(p.slots, 0, 1)
	}
	p.slots = append(p.slots, s)
	if joined {
		s.joined = now
	} else {
		s.users++
	}
	return s
}

// idle empties the slots that are not in use and returns their dialogs.
func (p *dialogs) idle() (handles []ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = slices.DeleteFunc(p.slots, func(s *slot) bool {
		if s.users == 0 && !s.handle.IsZero() {
			handles = append(handles, s.handle)
		}
		return s.users == 0
	})
	return handles
}

// txDialog is what a transaction sends on: the dialog of a slot or of a key.
type txDialog struct {
	pool  *dialogs
	tx    *Tx
	keyed bool
	key   string
	group ID    // of the key
	slot  *slot // without key

	was    ID // the dialog as of before the transaction
	now    ID // the dialog; zero: one has to be found or begun
	dead   bool
	before []*backend.Endpoint // the key's dialogs when they were last looked at
	tried  []ID                // the transaction was refused on them
	met    bool                // it found the group in the making, and may have a lock on it
}

type txDialogKey struct {
	pool  *dialogs
	keyed bool
	key   string
}

// dialogOf returns the dialog on which the transaction sends for a Sender.
func (tx *Tx) dialogOf(s *Sender) *txDialog {
	k := txDialogKey{s.pool, s.keyed, s.key}
	if l := tx.txDialogs[k]; l != nil {
		return l
	}
	p := s.pool
	l := &txDialog{pool: p, tx: tx, keyed: s.keyed, key: s.key}
	if s.keyed {
		l.group = p.opt.groupOf(s.key)
		p.mu.Lock()
		l.was = p.keys[s.key]
		p.mu.Unlock()
	} else {
		l.slot = p.take(tx.joined)
		p.mu.Lock()
		l.was = l.slot.handle
		p.mu.Unlock()
	}
	l.now = l.was
	if tx.txDialogs == nil {
		tx.txDialogs = make(map[txDialogKey]*txDialog)
	}
	tx.txDialogs[k] = l
	return l
}

// lost gives up its dialog.
func (l *txDialog) lost() {
	if l.now == l.was {
		l.dead = true
	}
	l.tried = append(l.tried, l.now)
	l.now = ID{}
}

// use notes the dialog that the transaction goes on with; zero: none yet. What
// becomes of a joined one we do not see, so we count on it.
func (l *txDialog) use(handle ID) {
	l.now = handle
	if l.tx.joined {
		l.remember(handle)
	}
}

func (l *txDialog) remember(handle ID) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	switch {
	case !l.keyed:
		l.slot.handle = handle
	case handle.IsZero():
		delete(l.pool.keys, l.key)
	default:
		remember(l.pool.keys, l.key, handle)
	}
}

// leaveDialogs gives the transaction's dialogs back at its end.
func (tx *Tx) leaveDialogs(committed bool) {
	for _, l := range tx.txDialogs {
		switch {
		case committed:
			l.remember(l.now)
		case l.dead:
			l.remember(ID{})
		}
		if l.slot != nil {
			l.pool.mu.Lock()
			l.slot.users--
			l.pool.mu.Unlock()
		}
	}
	tx.txDialogs = nil
}

// laterID returns an id greater than the given one, which another process may have made.
func laterID(than ID) ID {
	id := NewID()
	if string(id[:]) > string(than[:]) {
		return id
	}
	// Its stamp and one more: milliseconds, the version's digit, a counter.
	stamp := binary.BigEndian.Uint64(than[:8])
	if stamp++; stamp&0xfff == 0 { // the carry has gone into the digit
		stamp = (stamp>>16+1)<<16 | 0x7000
	}
	binary.BigEndian.PutUint64(id[:8], stamp)
	return id
}

// nextID returns the id that comes at once after another.
func nextID(after ID) ID {
	binary.BigEndian.PutUint64(after[8:], binary.BigEndian.Uint64(after[8:])+1)
	return after
}
