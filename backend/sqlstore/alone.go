package sqlstore

import (
	"database/sql"
	"sync"
)

// Alone is the beginning of a transaction of one verb, which is put off. If the verb's first statement is all of
// it, the engine carries that out by itself, and has committed when it has changed something. Any other statement
// begins the transaction.
type Alone struct {
	mu        sync.Mutex
	putOff    bool
	committed bool
	over      bool // it has ended without having begun
}

// PutOff puts the beginning off, before the transaction is used.
func (a *Alone) PutOff() { a.putOff = true }

// Committed reports whether all is done.
func (a *Alone) Committed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.committed
}

// Unbegun reports whether there is nothing to end but the use of the connection.
func (a *Alone) Unbegun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.putOff || a.committed
}

// Over is Unbegun for the end of the transaction. Nothing begins it after that.
func (a *Alone) Over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = a.over || a.putOff || a.committed
	a.putOff = false
	return a.over
}

// Enter begins the transaction if that has been put off.
func (a *Alone) Enter(begin func() error) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.committed || a.over {
		return sql.ErrTxDone
	}
	if a.putOff {
		if err = begin(); err == nil {
			a.putOff = false
		}
	}
	return err
}

// ByItself carries out a statement if the beginning has been put off, and reports whether it did. Where it has not, it may
// have begun the transaction.
func (a *Alone) ByItself(run func() (res sql.Result, begun bool, err error)) (res sql.Result, done bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.putOff {
		return nil, false, nil
	}
	res, begun, err := run()
	if begun || err != nil {
		a.putOff = !begun
		return nil, err != nil, err
	}
	n, err := res.RowsAffected()
	a.committed = n > 0
	return res, true, err
}

// alone is implemented by transactions that embed an Alone.
type alone interface{ Committed() bool }
