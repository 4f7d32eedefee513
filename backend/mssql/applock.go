package mssql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Application locks by sp_getapplock, which already has the five modes, counts and unions. It has
// no fence, and no list that every user may read: sys.dm_tran_locks requires VIEW SERVER STATE, and
// shows 32 characters of a name. So the rows stay, and decide whose turn it is. Then the server's
// lock is requested without waiting; it excludes others.
//
// A session's locks belong to the connection that the session keeps, and a transaction's locks to
// the transaction. It releases them at its end, whether the store or the caller ends it.

// Locks is how application locks are kept.
type Locks = sqlstore.Locks

// The values of Options.Locks.
const (
	// LocksRows keeps them as rows. A session is a lease, and its locks are free
	// when that is over.
	LocksRows = sqlstore.LocksRows
	// LocksNative keeps them as the server's application locks too. A session is a
	// connection of the pool, which it keeps; two are left to others. Its locks are free
	// as soon as the server has lost the connection. No lock is given to another owner as
	// long as its owner's connection has it.
	LocksNative = sqlstore.LocksNative
)

// modeNames are what sp_getapplock takes. The unions cannot be asked for.
var modeNames = map[backend.LockMode]string{
	backend.LockIS: "IntentShared",
	backend.LockS:  "Shared",
	backend.LockU:  "Update",
	backend.LockIX: "IntentExclusive",
	backend.LockX:  "Exclusive",
}

// The values of @LockOwner.
const (
	ofSession     = "Session"
	ofTransaction = "Transaction"
)

// maxPlainName is the maximum length of a name that becomes part of a resource unchanged. A
// resource has 255 UTF-16 units, including the store's part; the server would cut off the rest.
const maxPlainName = 220

// resourceName is the part of a name in a resource: the name and an end, so that spaces
// at its end count. A longer name is its hash instead, which cannot look the same.
func resourceName(name string) string {
	if len(utf16.Encode([]rune(name))) <= maxPlainName {
		return name + "."
	}
	sum := sha256.Sum256([]byte(name))
	return "#" + hex.EncodeToString(sum[:])
}

// resourceSQL is an expression for the resource of a name or of a session's id. Names
// of resources are the database's, so it begins with the id of the store's table of
// locks.
func (p *pool) resourceSQL(part string) string {
	dot := ""
	if p.options.Schema != "" {
		dot = p.options.Schema + "."
	}
	return fmt.Sprintf(`CONCAT(N'parley ', OBJECT_ID(N'%s%slock'), N' ', %s)`, dot, p.options.Prefix, part)
}

// The calls. $R stands for the resource.
const (
	// @p1 name, @p2 mode, @p3 owner
	getSQL = `
		DECLARE @resource nvarchar(255) = $R, @code int;
		EXEC @code = sp_getapplock @Resource = @resource, @LockMode = @p2, @LockOwner = @p3,
		     @LockTimeout = 0, @DbPrincipal = N'public';
		SELECT @code`
	// As often as it was got. @p1 name, @p2 owner
	releaseSQL = `
		DECLARE @resource nvarchar(255) = $R, @code int = 0;
		WHILE @code = 0 AND APPLOCK_MODE(N'public', @resource, @p2) <> N'NoLock'
		  EXEC @code = sp_releaseapplock @Resource = @resource, @LockOwner = @p2, @DbPrincipal = N'public';
		SELECT @code`
	// @p1 name, @p2 mode, @p3 owner
	testSQL = `SELECT CONVERT(int, APPLOCK_TEST(N'public', $R, @p2, @p3))`
	// @p1 name, @p2 owner
	modeSQL = `SELECT CASE APPLOCK_MODE(N'public', $R, @p2) WHEN N'Exclusive' THEN 1 ELSE 0 END`
)

// applocks are the server's locks of an owner; sqlstore.NativeLocks.
type applocks struct {
	p      *pool
	on     backend.Execer // what has them
	owner  string         // ofSession, ofTransaction
	before string         // of each call
}

// lockTime is how long the server may take to answer, since nothing is waited for.
// It is not the caller's context that ends a call: the driver would give up the
// connection, and all locks with it.
const lockTime = 10 * time.Second

// run makes a call and returns the code that comes of it.
func (l *applocks) run(ctx context.Context, text, name string, args ...any) (code int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTime)
	defer cancel()
	text = l.before + strings.ReplaceAll(text, "$R", l.p.resourceSQL("@p1"))
	text, args = call(text, append([]any{name}, args...))
	err = l.on.QueryRowContext(ctx, text, args...).Scan(&code)
	if err != nil && l.owner == ofSession {
		err = gone(err)
	}
	return code, err
}

// gone returns ErrFenced for an error of a session whose connection is lost: an error that
// the server has not sent itself. The server can no longer be asked about the locks.
func gone(err error) error {
	if number(err) == 0 || errors.Is(classify(err), backend.ErrConnection) {
		return sqlstore.Classified(backend.ErrFenced, err)
	}
	return err
}

// Take implements sqlstore.NativeLocks. Nothing is remembered of what was got: a rollback
// to a savepoint releases what came after it, and the server does not report that.
func (l *applocks) Take(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	modes := modesOf(mode)
	if len(modes) > 1 { // a union is got mode by mode, and not the half of it
		if free, err := l.Test(ctx, name, mode); err != nil || !free {
			return false, err
		}
	}
	for _, m := range modes {
		code, err := l.run(ctx, getSQL, resourceName(name), modeNames[m], l.owner)
		if err != nil {
			return false, err
		}
		switch code {
		case 0, 1:
		case -1: // others have it
			return false, nil
		case -3:
			return false, backend.ErrLockDeadlock
		default:
			return false, applock(code)
		}
	}
	return true, nil
}

// Test implements sqlstore.NativeLocks.
func (l *applocks) Test(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	for _, m := range modesOf(mode) {
		if ok, err := l.run(ctx, testSQL, resourceName(name), modeNames[m], l.owner); err != nil || ok != 1 {
			return false, err
		}
	}
	return true, nil
}

// Drop implements sqlstore.NativeLocks. The server keeps the stronger of two modes until
// the last release, so there is no way back to the weaker.
func (l *applocks) Drop(ctx context.Context, name string, to backend.LockMode) (bool, error) {
	if to != backend.LockNone {
		return true, nil
	}
	code, err := l.run(ctx, releaseSQL, resourceName(name), l.owner)
	if err == nil && code != 0 { // -999: wrong parameters, or it is not held
		err = fmt.Errorf("parley: mssql: sp_releaseapplock returned %d", code)
	}
	return err == nil, err
}

// modesOf returns the modes of a union.
func modesOf(mode backend.LockMode) (modes []backend.LockMode) {
	for m := backend.LockIS; m <= backend.LockX; m <<= 1 {
		if mode&m != 0 {
			modes = append(modes, m)
		}
	}
	return modes
}

// line is the connection of a session; sqlstore.Line.
type line struct {
	applocks
	conn *sql.Conn
	name string // of the lock that says that it is there
}

// sessionName is the name of a session's own lock. Those of the application's end
// otherwise.
func sessionName(id string) string { return "session " + id }

// openLine takes a connection for a session, and a lock by which others see that
// it is there. As long as it is kept the driver does not reset it.
func (p *pool) openLine(ctx context.Context, session backend.ID) (sqlstore.Line, error) {
	if p.invalid != nil {
		return nil, p.invalid
	}
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l := &line{applocks{p: p, on: conn, owner: ofSession}, conn, sessionName(fmt.Sprintf("%X", session[:]))}
	code, err := l.run(ctx, getSQL, l.name, modeNames[backend.LockX], l.owner)
	if err == nil {
		err = applock(code)
	}
	if err != nil {
		sqlstore.Discard(conn)
		return nil, err
	}
	return l, nil
}

// Beat implements sqlstore.Line.
func (l *line) Beat(ctx context.Context) error {
	there, err := l.run(ctx, modeSQL, l.name, l.owner)
	if err == nil && there == 0 {
		err = sqlstore.Classified(backend.ErrFenced, errors.New("parley: mssql: the connection of the session has been reset"))
	}
	return err
}

// Close implements sqlstore.Line. The server releases what a connection had when it
// ends, and only that is certain. A connection in the pool is reset when it is used
// again.
func (l *line) Close(context.Context) error {
	sqlstore.Discard(l.conn)
	return nil
}

// txNative returns the server's locks of a transaction.
func (p *pool) txNative(tx *sqlstore.Tx) sqlstore.NativeLocks {
	return &applocks{p: p, on: tx.SQL(), owner: ofTransaction, before: inside}
}

// nativeToken writes what knows of native sessions. The server's lock of one
// can be granted to others only when its connection is gone.
func (p *pool) nativeToken(verb string) (string, bool) {
	lost := func(owner string) string {
		return fmt.Sprintf("APPLOCK_TEST(N'public', %s, N'Shared', N'Session') = 1",
			p.resourceSQL("N'"+sessionName("")+"', CONVERT(nvarchar(32), "+owner+", 2)"))
	}
	switch verb {
	case "until":
		return "CASE WHEN o.kind = 2 AND " + lost("o.owner_id") + " THEN 0 ELSE o.until END", true
	case "expired":
		return "1 = CASE WHEN kind = 0 AND until <= :now THEN 1 WHEN kind = 2 AND " + lost("owner_id") +
			" THEN 1 ELSE 0 END", true
	}
	return "", false
}

// applock is the error of a return code of sp_getapplock.
func applock(code int) error {
	switch code {
	case 0, 1: // granted, at once or after waiting
		return nil
	case -1:
		return sqlstore.Classified(backend.ErrSerialization, errors.New("sp_getapplock: timed out"))
	case -2:
		return context.Canceled
	case -3:
		return sqlstore.Classified(backend.ErrSerialization, errors.New("sp_getapplock: chosen as a deadlock victim"))
	}
	return fmt.Errorf("parley: mssql: sp_getapplock returned %d", code) // -999: wrong parameters, or no transaction
}
