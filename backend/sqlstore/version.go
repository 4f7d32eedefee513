package sqlstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// A program of version n knows the schema's files up to the n-th, and works on the
// schemas n and n+1. So the file n+1 may take away only what no program n uses.

// withHeaders is the first program that keeps the headers of messages when it moves them.
const withHeaders = 7

// withMinProgram is the first schema that has the column min_program.
const withMinProgram = 3

// state is what a store says of its schema.
type state struct {
	found      bool // there is a schema
	schema     int
	minProgram int // older programs must neither send nor claim
	catalog    int64
}

// state reads it, whether there is a schema or not.
func (r run) state(ctx context.Context) (st state, err error) {
	var one any
	found, err := r.Row(ctx, []any{&one}, r.s.q.SchemaExists)
	if err != nil || !found {
		return st, err
	}
	return r.meta(ctx)
}

// meta reads the state of a schema that is there. The catalog's version is read no
// later than the rest: a program that learns a version later has seen what came with it.
func (r run) meta(ctx context.Context) (st state, err error) {
	st.found, err = r.Row(ctx, []any{&st.schema, &st.catalog}, r.s.q.SchemaVersion)
	if err == nil && st.schema >= withMinProgram {
		_, err = r.Row(ctx, []any{&st.minProgram}, r.s.q.SchemaProgram)
	}
	return st, err
}

// program is the version of this program: the last schema that it makes.
func (s *Store) program() int { return len(s.d.Migrations) }

// compare says whether this program may work with a store in this state, and
// remembers it.
func (s *Store) compare(st state) error {
	err := s.judge(st)
	s.versions.saw(err)
	return err
}

func (s *Store) judge(st state) error {
	program := s.program()
	switch {
	case st.schema < 0:
		return fmt.Errorf("schema version %d: %w", st.schema, backend.ErrUnknownSchema)
	case st.schema == 0:
		return backend.ErrNotMigrated
	case st.schema < program:
		return fmt.Errorf("schema version %d, this program needs %d: %w", st.schema, program, backend.ErrNotMigrated)
	case st.schema > program+1:
		return fmt.Errorf("schema version %d, this program knows %d: %w", st.schema, program, backend.ErrNewerSchema)
	case st.minProgram > program:
		return fmt.Errorf("the schema needs programs of version %d, this is %d: %w",
			st.minProgram, program, backend.ErrNewerSchema)
	}
	return nil
}

// versions is what a store remembers of the comparison.
type versions struct {
	admitted atomic.Bool           // it was once found to be right
	looked   atomic.Int64          // when it was last found to be right, in nanoseconds since 1970
	refused  atomic.Pointer[error] // what the last comparison said
	headers  atomic.Bool           // no program is left that would lose headers
}

// forget is for a schema that is gone.
func (v *versions) forget() {
	v.admitted.Store(false)
	v.headers.Store(false)
}

func (v *versions) saw(err error) {
	if err != nil {
		v.refused.Store(&err)
		return
	}
	v.refused.Store(nil)
	v.looked.Store(time.Now().UnixNano())
	v.admitted.Store(true)
}

// known returns what the last comparison said, without asking the store.
func (v *versions) known() error {
	if err := v.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// lookEvery is how often a program checks whether it has become too old. That matters for programs
// that neither send nor claim messages, and so never read the catalog again.
const lookEvery = 5 * time.Second

// Admitted reports whether the schema has been found to be there.
func (s *Store) Admitted() bool { return s.versions.admitted.Load() }

// admit compares versions before the store's first use, in a separate session.
func (s *Store) admit(ctx context.Context) error {
	if s.versions.admitted.Load() {
		return nil
	}
	return s.check(ctx)
}

// admitAgain compares them now and then.
func (s *Store) admitAgain(ctx context.Context) error {
	if s.versions.known() == nil && time.Since(time.Unix(0, s.versions.looked.Load())) < lookEvery {
		return nil
	}
	return s.check(ctx)
}

func (s *Store) check(ctx context.Context) error {
	return s.outside(ctx, func(r run) error {
		st, err := r.state(ctx)
		if err != nil {
			return err
		}
		return s.compare(st)
	})
}

// Check implements backend.Backend.
func (s *Store) Check(ctx context.Context) error { return s.check(ctx) }

// fenced is the error of a lease that could not be taken back. If the schema has become too new for
// this program, no lease can be, and the error says so.
func (t *Tx) fenced(ctx context.Context) error {
	st, err := t.meta(ctx)
	if err == nil && st.schema > t.s.program()+1 {
		err = t.s.compare(st)
	}
	if err != nil {
		return err
	}
	return backend.ErrFenced
}

// admitHeaders returns ErrOlderPrograms if programs may be there that would lose headers. That
// none is left is asked once in the life of a handle that sends headers.
func (t *Tx) admitHeaders(ctx context.Context, given bool) error {
	if !given || t.s.versions.headers.Load() {
		return nil
	}
	var oldest int
	if _, err := t.Row(ctx, []any{&oldest}, t.s.q.SchemaOldest); err != nil {
		return err
	}
	if oldest < withHeaders {
		return fmt.Errorf("headers: %w", backend.ErrOlderPrograms)
	}
	t.s.versions.headers.Store(true)
	return nil
}

// headed reports whether a message has headers.
func headed(m backend.Outgoing) bool { return m.Headers != "" }
