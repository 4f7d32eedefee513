package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/parleymq/parley/backend"
)

// ErrNoTx is the error of a connection on which no transaction is open.
var ErrNoTx = Classified(backend.ErrNoTx, errors.New("a connection without a transaction carries each statement out by itself"))

var errPool = Classified(backend.ErrNoTx, errors.New("a pool carries each statement out by itself, on any of its connections"))

// inTx returns an error for a value that is no open transaction. Such values are a *sql.DB, a
// *sql.Conn without an open transaction, and a type that embeds one of them, as in sqlx and Bun.
func (s *Store) inTx(ctx context.Context, tx backend.Execer) error {
	switch tx.(type) {
	case interface{ Commit() error }:
	case interface{ Stats() sql.DBStats }:
		return errPool
	case interface{ Raw(func(any) error) error }:
		if s.d.InTx == nil {
			return nil
		}
		in, err := s.d.InTx(ctx, tx)
		if err == nil && !in {
			err = ErrNoTx
		}
		return err
	}
	return nil
}
