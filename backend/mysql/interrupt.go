package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// guarded runs one of our statements whose context may end. With that context the driver would
// close the connection. The server would continue to wait for a lock and keep all other locks of
// the transaction. So guarded tells the server to end the statement, and the transaction survives.
// If there is no answer all the same, see answered, it closes the connection.
func (p *pool) guarded(ctx context.Context, s *session, work func(context.Context) error) error {
	interrupted, err := sqlstore.Interrupted(ctx, func() bool { return p.interrupt(s.id) }, work)
	if interrupted {
		return errors.Join(errInterrupted, err)
	}
	return err
}

// errInterrupted: the statement was told to end, and may have ended in the middle.
// A locking read that skips what is locked has been seen to end without an error
// then, as if it had found nothing.
var errInterrupted = errors.New("interrupted")

// interrupt ends the statement that a session is at. It reports whether that could be done.
func (p *pool) interrupt(id int64) bool {
	return p.about(func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id))
		return err
	})
}

// answered runs work that sends a text of several statements, which are short. A server that is told to end the statement
// between two of them leaves out the rest, and never sends the results that it has announced (MySQL 9.7.4, MariaDB 11.8.9).
// An operator may kill the query at that moment, too. So answered looks at the session after some time, and closes the
// connection if it sleeps.
func (p *pool) answered(ctx context.Context, s *session, work func(context.Context) error) error {
	own, hangUp := context.WithCancel(ctx)
	return p.orHangUp(s, hangUp, func() error { return work(own) })
}

// orHangUp is answered for work that hangUp ends.
func (p *pool) orHangUp(s *session, hangUp func(), work func() error) error {
	var over atomic.Bool // there is an answer, or there will be none
	ended := make(chan struct{})
	quiet := time.AfterFunc(silence, func() {
		if p.sleeps(s.id, ended) && over.CompareAndSwap(false, true) {
			hangUp()
		}
	})
	err := work()
	answered := over.CompareAndSwap(false, true)
	close(ended)
	if quiet.Stop(); !answered {
		return errUnanswered
	}
	return err
}

var errUnanswered = sqlstore.Classified(backend.ErrConnection, errors.New("the server has left a statement unanswered"))

// silence is after how long the server is asked whether a session is still at its statement.
const silence = 5 * time.Second

// sleeps waits until a statement has ended, or its session sleeps instead of working at it. An answer may be on its way
// from a session that sleeps, so it must be found asleep twice. MariaDB calls it killed if KILL QUERY meets it asleep.
func (p *pool) sleeps(id int64, ended <-chan struct{}) bool {
	slept := 0
	for wait := time.Second; slept < 2; {
		select {
		case <-ended:
			return false
		case <-time.After(wait):
		}
		var asleep bool
		p.about(func(ctx context.Context, db *sql.DB) error {
			return db.QueryRowContext(ctx, fmt.Sprintf(
				"SELECT COUNT(*) FROM information_schema.processlist WHERE id = %d AND (command = 'Sleep' OR command = 'Killed' AND info IS NULL)", id)).Scan(&asleep)
		})
		if asleep {
			slept++
		} else {
			slept, wait = 0, 2*wait
		}
	}
	return true
}

// about asks the server about a session, on another connection. It reports whether that could be done. vtgate
// knows connections by other numbers than MySQL, and mostly forbids KILL.
func (p *pool) about(ask func(context.Context, *sql.DB) error) bool {
	if p.vitess() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if p.side != nil {
		return ask(ctx, p.side) == nil
	}
	return ask(ctx, p.db) == nil
}
