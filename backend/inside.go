package backend

import "context"

type insideKey struct{}

// InsideTx marks a context as belonging to work inside an open transaction, so
// that a backend with a single writer can refuse (ErrWouldDeadlock) a second
// write transaction that the first would wait for.
func InsideTx(ctx context.Context, tx Tx) context.Context {
	return context.WithValue(ctx, insideKey{}, tx)
}

// TxFrom returns the innermost transaction that ctx was marked with, or nil.
func TxFrom(ctx context.Context) Tx {
	tx, _ := ctx.Value(insideKey{}).(Tx)
	return tx
}
