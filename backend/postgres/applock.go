package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Application locks as advisory locks. Advisory locks have two modes, shared and exclusive,
// application locks have five. So each name has four keys, one for each fact about its holders:
//
//	A  an owner has it Shared or for Update
//	B  an owner has it IntentExclusive
//	C  an owner has it
//	D  an owner has it for Update
//
// An owner holds its keys shared, but D exclusively, and for Exclusive C exclusively. A request for
// Shared or Update briefly takes B exclusively, to make sure that no owner has IntentExclusive. A
// request for IntentExclusive does the same with A. A fifth key, as a gate, would keep two requests
// from testing at once and both failing. It is not needed, because decisions about a name already
// take turns by the row of its stripe.
//
// The keys are 64 bits: a hash of the name, and below it the number of the key. The
// hash is seeded by the object id of the table of locks, so that two stores in one
// database have different ones. Names whose hashes are equal exclude each other.

// Locks is how application locks are kept.
type Locks = sqlstore.Locks

// The values of Options.Locks.
const (
	// LocksRows keeps them as rows. A session is a lease, and its locks are free
	// when that is over.
	LocksRows = sqlstore.LocksRows
	// LocksNative keeps them as advisory locks too. A session is a connection of the pool,
	// which it keeps; two are left to others. Its locks are free as soon as the server has
	// lost the connection. No lock is given to another owner as long as its owner's
	// connection has it. It is not possible behind a transaction pooler.
	LocksNative = sqlstore.LocksNative
)

var errPooledLocks = errors.New("parley: postgres: native locks need sessions of the server, but a pooler assigns servers to transactions: connect without it, or set Options.Locks (parley_locks) to rows")

// keySet is a set of advisory locks of one name.
type keySet int

const (
	keyA keySet = 1 << iota // shared
	keyB                    // shared
	keyC                    // shared
	keyD                    // exclusive
	keyX                    // C, exclusive
)

// lockKeys returns what an owner holds for a mode.
func lockKeys(m backend.LockMode) (k keySet) {
	if m&backend.LockX != 0 {
		k |= keyX
	}
	if m&(backend.LockS|backend.LockU) != 0 {
		k |= keyA
	}
	if m&backend.LockIX != 0 {
		k |= keyB
	}
	if m&backend.LockU != 0 {
		k |= keyD
	}
	if m&^backend.LockX != 0 {
		k |= keyC
	}
	return k
}

// advisory is one lock of the server's.
type advisory struct {
	key    int // in the low bits
	shared bool
	moment bool // only to see that no owner has it
}

// The numbers of keys. The last is that of a session.
const (
	numberA = 1 + iota
	numberB
	numberC
	numberD
	numberOwner = 7
)

// advisories lists the locks of a set, in the order in which they are tried.
func (k keySet) advisories() (list []advisory) {
	for _, x := range []struct {
		key keySet
		advisory
	}{
		{keyA, advisory{numberB, false, true}},
		{keyB, advisory{numberA, false, true}},
		{keyX, advisory{numberC, false, false}},
		{keyD, advisory{numberD, false, false}},
		{keyA, advisory{numberA, true, false}},
		{keyB, advisory{numberB, true, false}},
		{keyC, advisory{numberC, true, false}},
	} {
		if k&x.key != 0 {
			list = append(list, x.advisory)
		}
	}
	return list
}

// call writes the call of a function for the lock.
func (a advisory) call(function string) string {
	if a.shared {
		function += "_shared"
	}
	return fmt.Sprintf("%s(b | %d)", function, a.key)
}

// baseSQL is an expression for the keys of a name or of a session's id, without
// their numbers. The table's id is that of the database's own catalog, whatever the
// search_path is.
func (p *pool) baseSQL(name string) string {
	dot := ""
	if p.options.Schema != "" {
		dot = p.options.Schema + "."
	}
	return fmt.Sprintf(`(hashtextextended(%s::text COLLATE "C", '%s%slock'::regclass::oid::bigint) & -8)`, name, dot, p.options.Prefix)
}

// takeSQL tries the locks of a set one after the other, up to the first that is not free. Then it
// releases the locks that were only for a moment, or all of them if one was not free or this is a
// test. It returns whether it got all of them.
//
// The end of a joined transaction is not known here. So the transaction takes the locks that it
// keeps a second time, before the session releases them.
//
// $1 name
func (p *pool) takeSQL(k keySet, test, joined bool) string {
	list := k.advisories()
	var tries, again, undo strings.Builder
	for i, a := range list {
		fmt.Fprintf(&tries, "WHEN NOT %s THEN %d ", a.call("pg_try_advisory_lock"), i)
		switch {
		case a.moment || test || joined:
			fmt.Fprintf(&undo, ", CASE WHEN n > %d THEN %s END", i, a.call("pg_advisory_unlock"))
		default:
			fmt.Fprintf(&undo, ", CASE WHEN n > %d AND n < %d THEN %s END", i, len(list), a.call("pg_advisory_unlock"))
		}
		if joined && !test && !a.moment {
			fmt.Fprintf(&again, ", CASE WHEN n = %d THEN %s END", len(list), a.call("pg_try_advisory_xact_lock"))
		}
	}
	return fmt.Sprintf(`
		WITH k AS MATERIALIZED (
		  SELECT %s AS b),
		t AS MATERIALIZED (
		  SELECT b, CASE %sELSE %d END AS n FROM k),
		h AS MATERIALIZED (
		  SELECT b, n, concat(''%s) AS held FROM t)
		SELECT n = %d, concat(held%s) FROM h`,
		p.baseSQL("$1"), tries.String(), len(list), again.String(), len(list), undo.String())
}

// dropSQL releases the locks of a set.
//
// $1 name
func (p *pool) dropSQL(k keySet) string {
	var undo strings.Builder
	for _, a := range k.advisories() {
		if !a.moment {
			fmt.Fprintf(&undo, ", %s", a.call("pg_advisory_unlock"))
		}
	}
	return fmt.Sprintf(`
		WITH k AS MATERIALIZED (
		  SELECT %s AS b)
		SELECT true, concat(''%s) FROM k`, p.baseSQL("$1"), undo.String())
}

// keys are the advisory locks of an owner; sqlstore.NativeLocks.
type keys struct {
	p       *pool
	on      backend.Execer // what has them: a connection, or a transaction on one
	session bool           // it is lost with its connection
	joined  bool           // the caller's transaction, which they end with

	mu   sync.Mutex
	held map[string]keySet // unless joined
}

// keyTime is how long the server may take to answer, since nothing is waited
// for. It is not the caller's context that ends a call: the driver would give up
// the connection, and all locks with it.
const keyTime = 10 * time.Second

func (k *keys) run(ctx context.Context, text, name string) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyTime)
	defer cancel()
	text, args := k.p.unprepared(&sqlstore.Stmt{Text: text}, []any{name})
	var rest string
	err = k.on.QueryRowContext(ctx, text, args...).Scan(&ok, &rest)
	if !k.session {
		return ok, err
	}
	return ok, gone(err)
}

// gone returns ErrFenced for an error of a session whose connection is lost: an error that
// the server has not sent itself. The server can no longer be asked about the locks.
func gone(err error) error {
	if err != nil && (sqlState(err) == "" || classify(err) == backend.ErrConnection) {
		return sqlstore.Classified(backend.ErrFenced, err)
	}
	return err
}

// Take implements sqlstore.NativeLocks.
func (k *keys) Take(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	return k.try(ctx, name, mode, false)
}

// Test implements sqlstore.NativeLocks.
func (k *keys) Test(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	return k.try(ctx, name, mode, true)
}

func (k *keys) try(ctx context.Context, name string, mode backend.LockMode, test bool) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	missing := lockKeys(mode)
	if !k.joined { // where a rollback to a savepoint may have released what the transaction held
		missing &^= k.held[name]
	}
	if missing == 0 {
		return true, nil
	}
	ok, err := k.run(ctx, k.p.takeSQL(missing, test, k.joined), name)
	if ok && err == nil && !test && !k.joined {
		if k.held == nil {
			k.held = map[string]keySet{}
		}
		k.held[name] |= missing
	}
	return ok, err
}

// Drop implements sqlstore.NativeLocks.
func (k *keys) Drop(ctx context.Context, name string, to backend.LockMode) (bool, error) {
	if k.joined {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	surplus := k.held[name] &^ lockKeys(to)
	if surplus == 0 {
		return true, nil
	}
	if _, err := k.run(ctx, k.p.dropSQL(surplus), name); err != nil {
		return false, err
	}
	if k.held[name] &^= surplus; k.held[name] == 0 {
		delete(k.held, name)
	}
	return true, nil
}

// line is the connection of a session; sqlstore.Line.
type line struct {
	keys
	conn *sql.Conn
}

// openLine takes a connection for a session, and an advisory lock by which
// others see that it is there.
func (p *pool) openLine(ctx context.Context, session backend.ID) (sqlstore.Line, error) {
	if err := p.probe(ctx); err != nil {
		return nil, err
	}
	if p.pooled.Load() {
		return nil, errPooledLocks
	}
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l := &line{keys: keys{p: p, on: conn, session: true}, conn: conn}
	text := fmt.Sprintf("SELECT pg_try_advisory_lock(%s | %d), ''", p.baseSQL("$1"), numberOwner)
	ok, err := l.run(ctx, text, session.String())
	if err == nil && !ok {
		err = errors.New("parley: postgres: another session holds the lock on this session's id")
	}
	if err != nil {
		sqlstore.Discard(conn)
		return nil, err
	}
	return l, nil
}

// Beat implements sqlstore.Line.
func (l *line) Beat(ctx context.Context) error {
	_, err := l.conn.ExecContext(ctx, "SELECT 1")
	return gone(err)
}

// Close implements sqlstore.Line. Whatever the connection has locked is ours.
func (l *line) Close(ctx context.Context) error {
	_, err := l.conn.ExecContext(ctx, "SELECT pg_advisory_unlock_all()")
	if err != nil {
		sqlstore.Discard(l.conn)
		return err
	}
	return l.conn.Close()
}

// beginNative starts a transaction on a connection that can be used after its end,
// to release what its session has locked.
func (p *pool) beginNative(ctx context.Context) (sqlstore.Transaction, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	tx, cancel, err := p.beginOn(ctx, conn, level)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &transaction{p: p, tx: tx, cancel: cancel, conn: conn}, nil
}

// txNative returns the advisory locks of a transaction.
func (p *pool) txNative(tx *sqlstore.Tx) sqlstore.NativeLocks {
	if tx.Joined() {
		return &keys{p: p, on: tx.SQL(), joined: true}
	}
	t := tx.Session().(*transaction)
	t.keys = &keys{p: p, on: t.tx}
	return t.keys
}

// giveBack releases what the session of an ended transaction has locked, and
// gives the connection back to the pool.
func (t *transaction) giveBack() {
	if t.conn == nil {
		return
	}
	if k := t.keys; k != nil {
		k.on = t.conn
		for name := range k.held {
			if _, err := k.Drop(context.Background(), name, backend.LockNone); err != nil {
				sqlstore.Discard(t.conn) // the server releases them
				return
			}
		}
	}
	t.conn.Close()
}

// sessionSQL is the advisory lock that shows that the owner o of a lock, a native session, is
// alive. Statements consider native sessions even in a store that has none, because other stores on
// the same tables may have some.
func (p *pool) sessionSQL() string {
	return fmt.Sprintf("%s | %d", p.baseSQL("o.owner_id"), numberOwner)
}

// aliveSQL is the time until which the owner o of a lock has it. For a native session that is the
// end of its lease. It is 0 if the session's connection is gone, and with it the advisory lock that
// shows the session's presence. If the attempt gets that lock, it ends with the statement or the
// transaction, and blocks nothing.
func (p *pool) aliveSQL() string {
	return "CASE WHEN o.kind = 2 AND pg_try_advisory_xact_lock_shared(" + p.sessionSQL() + ") THEN 0 ELSE o.until END"
}
