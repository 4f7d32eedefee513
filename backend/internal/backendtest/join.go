package backendtest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Joining wants what is no open transaction to be refused, and a connection with one to be joined.
// db is a pool on be's database.
func Joining(t *testing.T, be backend.Backend, db *sql.DB) {
	f := New(t, be)
	j := be.Capabilities().Joiner
	refused := func(what string, on backend.Execer) {
		t.Helper()
		if _, err := j.Join(f.Ctx, on); !errors.Is(err, backend.ErrNoTx) {
			t.Errorf("join %s: %v, want ErrNoTx", what, err)
		}
	}
	refused("a pool", db)
	refused("what embeds a pool", struct{ *sql.DB }{db})
	conn, err := db.Conn(f.Ctx)
	f.OK(err)
	defer conn.Close()
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		refused("a connection without a transaction", conn)
		_, err = conn.ExecContext(f.Ctx, "BEGIN")
		f.OK(err)
		for _, body := range []string{"1", "2"} { // to look does not end it
			tx, err := j.Join(f.Ctx, conn)
			f.OK(err)
			_, err = tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte(end + body)})})
			f.OK(err)
		}
		_, err = conn.ExecContext(f.Ctx, end)
		f.OK(err)
	}
	refused("a connection whose transaction is over", conn)
	f.Equal("what came with the commit", f.Drain(f.QP), []string{"COMMIT1", "COMMIT2"})
}

// JoiningFirst has another store on be's database join transactions before it does anything else, while they have all
// connections of its pool. Whatever the store has to know, it must not wait for another connection.
func JoiningFirst(t *testing.T, be, another backend.Backend, db *sql.DB) {
	f := New(t, be)
	j := another.Capabilities().Joiner
	var txs []*sql.Tx
	db.SetMaxOpenConns(2)
	for range 2 {
		tx, err := db.BeginTx(f.Ctx, nil)
		f.OK(err)
		defer tx.Rollback()
		txs = append(txs, tx)
	}
	ctx, cancel := context.WithTimeout(f.Ctx, slow.By(10*time.Second))
	defer cancel()
	for i, on := range txs {
		tx, err := j.Join(ctx, on)
		f.OK(err)
		_, err = tx.Post(ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte{'0' + byte(i)}})})
		f.OK(err)
		f.OK(tx.NotifyAtCommit(ctx, []int64{f.QP}))
	}
	for _, tx := range txs {
		f.OK(tx.Commit())
	}
	f.Equal("what was posted", f.Drain(f.QP), []string{"0", "1"})
}
