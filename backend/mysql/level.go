package mysql

import (
	"context"
	"database/sql"
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

// patience is how long a probe waits for another connection, or for its row:
// SERIALIZABLE locks the place where that would be.
const patience = time.Second

func (p *pool) probe(ctx context.Context, tx *sqlstore.Tx) (level, error) {
	id := backend.NewID()
	seen := func() (bool, error) { return tx.Row(ctx, []any{new(any)}, p.hot.Probe, id) }
	if _, err := seen(); err != nil {
		return unknown, err
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, s, err := p.conn(waiting)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			err = fmt.Errorf("parley: mysql: receiving in a transaction of the application needs a second connection, and none was free for %v: raise the pool's limit: %w", patience, err)
		}
		return unknown, err
	}
	defer conn.Close()
	text, args, err := inline(p.hot.Probed.Text, []any{id[:]}, 0)
	if err != nil {
		return unknown, err
	}
	err = p.guarded(waiting, s, func(ctx context.Context) error {
		_, err := conn.ExecContext(ctx, text, args...)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return stale, nil
		}
		return unknown, err
	}
	there, err := seen()
	if err == nil && !there {
		there, err = p.arrives(waiting, tx, conn, seen)
	}
	if text, args, e := inline(p.hot.Unprobe.Text, []any{id[:]}, 0); e == nil {
		conn.ExecContext(context.WithoutCancel(ctx), text, args...) // else the row stays, and does no harm
	}
	if err != nil || !there {
		return stale, err
	}
	return fresh, nil
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
		err = fmt.Errorf("parley: mysql: the transaction is on another server than new connections, and in %v it has not seen what they write: begin it again: %w",
			patience, backend.ErrConnection)
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
