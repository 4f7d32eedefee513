package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
	"github.com/parleymq/parley/internal/wait"
)

// Tx is a transaction, of ours or joined. At REPEATABLE READ, the engines' default, and at SERIALIZABLE, a
// statement reads data as old as the transaction. No lock makes it newer. Verbs that send, post, begin, or
// settle a hold by lease still work. They lock the rows that they write, and read them with a lock. They take
// the catalog, and whether the other side has ended, from the snapshot, like a sender that commits late.
// Verbs that search would find rows that no longer exist. So they fail with ErrIsolation.
type Tx struct {
	*sqlstore.Tx
	pool  *pool
	level level
}

// level is what is known of a joined transaction's level.
type level int

const (
	unknown level = iota
	fresh         // each statement sees what is committed
	stale
)

var _ backend.Tx = (*Tx)(nil)

// look returns ErrIsolation unless the transaction sees what is committed. Neither server reports
// the level of a transaction, only that of the session. So look tests it once in a joined
// transaction, by a row that another connection inserts.
func (t *Tx) look(ctx context.Context) error {
	if !t.Joined() || !t.Open() || t.level == fresh {
		return nil
	}
	if t.level == unknown {
		var err error
		if t.level, err = t.pool.probe(ctx, t.Tx); err != nil {
			return err
		}
	}
	if t.level == stale {
		return fmt.Errorf("parley: mysql: begin the transaction at READ COMMITTED (sql.TxOptions): %w", backend.ErrIsolation)
	}
	return nil
}

// patience is how long a probe waits for another connection, and for its row. SERIALIZABLE locks the place where that would
// be. But the server or its cluster may also be slow. So a second probe waits longer, and InnoDB says whether it is a lock.
const (
	patience = time.Second
	slowly   = 10 * patience
)

var errSlow = errors.New("the row of a probe takes long")

func (p *pool) probe(ctx context.Context, tx *sqlstore.Tx) (level, error) {
	l, err := p.probeFor(ctx, tx, patience)
	if err == errSlow {
		l, err = p.probeFor(ctx, tx, slowly)
	}
	if err == errSlow {
		err = fmt.Errorf("parley: mysql: the test of the transaction's isolation level has had no answer in %v: %w", slowly, backend.ErrConnection)
	}
	return l, err
}

func (p *pool) probeFor(ctx context.Context, tx *sqlstore.Tx, limit time.Duration) (level, error) {
	id := backend.NewID()
	seen := func() (bool, error) { return tx.Row(ctx, []any{new(any)}, p.hot.Probe, id) }
	if _, err := seen(); err != nil {
		return unknown, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, s, err := p.conn(waiting)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			err = fmt.Errorf("parley: mysql: receiving in a transaction of the application needs a second connection, and none was free for %v: raise the pool's limit: %w", limit, err)
		}
		return unknown, err
	}
	defer conn.Close()
	if limit == slowly {
		defer sqlstore.Discard(conn) // with its setting
	}
	err = p.guarded(waiting, s, func(ctx context.Context) error { return p.putProbe(ctx, conn, id, limit == slowly) })
	switch {
	case number(err) == 1205: // ER_LOCK_WAIT_TIMEOUT
		return stale, nil
	case err != nil && ctx.Err() == nil && waiting.Err() != nil:
		if p.server.Load().vitess { // which takes no setting of a session's
			return stale, nil
		}
		return unknown, errSlow
	case err != nil:
		return unknown, err
	}
	there, err := seen()
	if err == nil && !there {
		there, err = p.arrives(waiting, tx, conn, seen)
	}
	if text, args, e := inline(p.hot.Unprobe.Text, []any{id[:]}, 0); e == nil {
		conn.ExecContext(context.WithoutCancel(ctx), text, args...) // else the row stays, and does no harm
	}
	switch {
	case err != nil:
		return unknown, err
	case there:
		return fresh, nil
	}
	return stale, nil
}

// putProbe inserts a probe's row, and waits for a lock for a second at most, or as long as is usual.
func (p *pool) putProbe(ctx context.Context, conn *sql.Conn, id backend.ID, second bool) error {
	if second {
		if _, err := conn.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
			return err
		}
	}
	text, args, err := inline(p.hot.Probed.Text, []any{id[:]}, 0)
	if err == nil {
		_, err = conn.ExecContext(ctx, text, args...)
	}
	return err
}

// arrives waits for a probe's row if the transaction is on another server than new connections are: it has begun before
// a switchover, or on another node of a cluster. There the row comes later, whatever the level.
func (p *pool) arrives(ctx context.Context, tx *sqlstore.Tx, conn *sql.Conn, seen func() (bool, error)) (there bool, err error) {
	if p.server.Load().vitess {
		return false, nil
	}
	var ours, its string
	if _, err := tx.Row(ctx, []any{&its}, p.hot.Where); err != nil {
		return false, err
	}
	if err := conn.QueryRowContext(ctx, p.hot.Where.Text).Scan(&ours); err != nil || its == ours {
		return false, err
	}
	for err == nil && !there && ctx.Err() == nil {
		wait.Sleep(ctx, 10*time.Millisecond)
		there, err = seen()
	}
	if err == nil && !there {
		err = fmt.Errorf("parley: mysql: the transaction is on another server than new connections, and has not seen what they write: begin it again: %w",
			backend.ErrConnection)
	}
	return there, err
}

// Claim implements backend.Tx.
func (t *Tx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	if err := t.look(ctx); err != nil {
		return backend.Claim{}, err
	}
	return t.Tx.Claim(ctx, r)
}

// LockGroup implements backend.Tx.
func (t *Tx) LockGroup(ctx context.Context, group backend.ID) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	return t.Tx.LockGroup(ctx, group)
}

// EndDialog implements backend.Tx.
func (t *Tx) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	if err := t.look(ctx); err != nil {
		return backend.Ended{}, err
	}
	return t.Tx.EndDialog(ctx, end)
}

// Move implements backend.Tx.
func (t *Tx) Move(ctx context.Context, handle, group backend.ID, newGroup bool) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	return t.Tx.Move(ctx, handle, group, newGroup)
}

// Unpark implements backend.Tx.
func (t *Tx) Unpark(ctx context.Context, group backend.ID) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	return t.Tx.Unpark(ctx, group)
}
