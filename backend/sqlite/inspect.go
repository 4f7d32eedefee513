package sqlite

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// writable says why nothing can be written, if so: it makes a table and undoes
// that. BEGIN IMMEDIATE alone would find nothing, since it only reads "if the
// database is read-only". Another writer is as good an answer.
func (p *pool) writable(ctx context.Context) (why string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	tx, err := p.begin(ctx)
	if err == nil {
		_, err = tx.SQL().ExecContext(ctx, "CREATE TABLE parley_writable (x)")
		tx.Rollback(context.WithoutCancel(ctx))
	}
	if err != nil && classify(err) == backend.ErrReadOnly {
		return err.Error()
	}
	return ""
}
