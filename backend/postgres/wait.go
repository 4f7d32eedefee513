package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend/sqlstore"
)

// channelName is the channel of notifications: one for each schema and prefix,
// as the function parley_post has it. Names of more than 63 bytes are refused.
func channelName(schema, prefix string) string {
	name := schema + wakeName(prefix)
	return name[:min(len(name), 63)]
}

// wakeName is the channel's name behind the schema's.
func wakeName(prefix string) string { return "." + prefix + "wake" }

// channel returns the channel of notifications, which the schema determines.
func (p *pool) channel(ctx context.Context) (string, error) {
	if c := p.wakes.Load(); c != nil {
		return *c, nil
	}
	var schema sql.NullString
	if err := p.db.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return "", unreached(ctx, err)
	}
	c := channelName(schema.String, p.options.Prefix)
	p.wakes.Store(&c)
	return c, nil
}

// Listen implements backend.Listener. It needs a separate connection that is not behind a
// transaction pooler. The connection is that of Options.Listen, or of the name that was passed to
// Open, or one of the pool if its driver is pgx.
func (s *Store) Listen(ctx context.Context, wake func(queue int64)) error {
	if s.pool.listen == "" && !s.pool.canWait(ctx) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return errors.ErrUnsupported
	}
	for pause := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = time.Second
		if s.pool.probe(ctx) != nil {
			continue
		}
		switch {
		case s.pool.listen != "":
			s.pool.listenPQ(ctx, wake)
		case s.pool.roomy(ctx):
			s.pool.listenPGX(ctx, wake)
		default: // polling goes on, and the pool may become larger
			pause = time.Minute
			continue
		}
		if ctx.Err() == nil {
			wake(0)
		}
	}
}

// listenFrom is how many connections a pool must have to spare one for listening.
const listenFrom = 3

// roomy reports whether the pool can spare a connection for good. What it says of
// itself is an upper bound only: there may be another pool behind it.
func (p *pool) roomy(ctx context.Context) bool {
	n := p.db.Stats().MaxOpenConnections
	ok := n <= 0 || n >= listenFrom
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for i := 0; ok && i < listenFrom; i++ {
		conn, err := p.db.Conn(bounded)
		if ok = err == nil; ok {
			defer conn.Close()
		}
	}
	if !ok && ctx.Err() == nil && p.log != nil {
		p.cramped.Do(func() {
			p.log.Warn("parley: the pool has too few connections to spare one for listening: receivers poll",
				"event", "listen.polls", "want", listenFrom)
		})
	}
	return ok
}

// maxConns is how many connections the pool can have for transactions and calls. If the store listens on one of
// them, it is one less than the pool may open.
func (p *pool) maxConns() int {
	n := p.db.Stats().MaxOpenConnections
	if p.listen == "" && n >= listenFrom && isPGX(p.db.Driver()) && !p.pooled.Load() {
		n--
	}
	return n
}

// LogTo implements backend.Logging.
func (s *Store) LogTo(l *slog.Logger) {
	s.Pooled.LogTo(l)
	s.pool.log = l
}

// waiter waits for a notification on a connection of pgx.
type waiter func(ctx context.Context) (payload string, err error)

// waiterOf looks for the connection of pgx in a driver's connection:
//
//	func (c *stdlib.Conn) Conn() *pgx.Conn
//	func (c *pgx.Conn) WaitForNotification(context.Context) (*pgconn.Notification, error)
func waiterOf(driverConn any) (w waiter, ok bool) {
	conn, ok := part(reflect.ValueOf(driverConn), "Conn")
	if !ok {
		return w, false
	}
	wait := conn.MethodByName("WaitForNotification")
	if !wait.IsValid() || wait.Type().NumIn() != 1 || wait.Type().NumOut() != 2 {
		return w, false
	}
	if wait.Type().In(0) != reflect.TypeFor[context.Context]() || wait.Type().Out(0).Kind() != reflect.Pointer {
		return w, false
	}
	field, ok := wait.Type().Out(0).Elem().FieldByName("Payload")
	if !ok || field.Type.Kind() != reflect.String {
		return w, false
	}
	return func(ctx context.Context) (string, error) {
		out := wait.Call([]reflect.Value{reflect.ValueOf(ctx)})
		if err, _ := out[1].Interface().(error); err != nil {
			return "", err
		}
		return out[0].Elem().FieldByIndex(field.Index).String(), nil
	}, true
}

// canWait reports whether the pool's own connections can listen.
func (p *pool) canWait(ctx context.Context) (ok bool) {
	if p.libpq || p.probe(ctx) != nil || p.pooled.Load() {
		return false
	}
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.Raw(func(c any) error {
		_, ok = waiterOf(c)
		return nil
	})
	return ok
}

// listenPGX listens on a connection of the pool, which it keeps.
func (p *pool) listenPGX(ctx context.Context, wake func(int64)) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return
	}
	// It must not go back to the pool while it listens. Behind the pool may be a pgxpool, to
	// which a connection that is discarded goes back anyway.
	defer sqlstore.Discard(conn)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.ExecContext(ctx, "UNLISTEN *") // if there is still a connection
	}()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`LISTEN "%s"`, *p.wakes.Load())); err != nil {
		return
	}
	wake(0)
	conn.Raw(func(c any) error {
		w, ok := waiterOf(c)
		if !ok {
			return nil
		}
		for {
			payload, err := w(ctx)
			if err != nil {
				return nil
			}
			wakeAll(payload, wake)
		}
	})
}

// wakeAll wakes the queues that a payload names.
func wakeAll(payload string, wake func(int64)) {
	for s := range strings.SplitSeq(payload, ",") {
		if id, err := strconv.ParseInt(s, 10, 64); err == nil {
			wake(id)
		} else {
			wake(0)
		}
	}
}

// Notify implements backend.Listener: one notification for several queues, in a separate
// transaction. A commit that notifies takes a lock that the whole server shares, so commits of
// senders do not notify.
func (s *Store) Notify(ctx context.Context, queues []int64) error {
	if len(queues) == 0 {
		return nil
	}
	return s.Classify(s.pool.notify(ctx, queues))
}

func (p *pool) notify(ctx context.Context, queues []int64) error {
	channel, err := p.channel(ctx)
	if err != nil {
		return err
	}
	// A command is neither planned nor answered with a row, and without parameters both are one
	// message and one transaction, also for a pooler. It writes to the log, and by default
	// listeners are told only when that has reached the disk. They need not wait for that, because
	// the messages that they are told of are already on the disk.
	_, err = p.db.ExecContext(ctx, "SET LOCAL synchronous_commit = off; NOTIFY "+pq.QuoteIdentifier(channel)+", '"+payload(queues)+"'")
	return err
}

// payload names the queues, or all of them if that would be too long: "in the
// default configuration it must be shorter than 8000 bytes".
func payload(queues []int64) string {
	if len(queues) > 300 {
		return "0"
	}
	b := make([]string, len(queues))
	for i, q := range queues {
		b[i] = strconv.FormatInt(q, 10)
	}
	return strings.Join(b, ",")
}

// Tx is a transaction that can notify when it commits.
type Tx struct {
	*sqlstore.Tx
	pool *pool
}
