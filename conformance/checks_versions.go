package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/sure"
)

func init() {
	add(
		check{ID: "M01", Name: "the next schema", Run: checkNextSchema},
		check{ID: "M01", Name: "schemas of other versions", Run: checkOtherSchemas},
		check{ID: "M01", Name: "a lease when the schema has moved on", Run: checkLeaseOfOld},
		check{ID: "M02", Name: "an announcement", Run: checkAnnounced},
		check{ID: "M02", Name: "a worker", Run: checkWorkerTooOld},
	)
}

// versioned is a store of its own, with the number of this program.
type versioned struct {
	*Versioned
	e       *env
	program int
}

func (e *env) versioned() *versioned {
	if e.r.store.Versions == nil {
		e.Skipf("the suite was given no way to set a schema's version")
	}
	s, err := e.r.store.Versions(e.Ctx)
	e.Must(err)
	v := &versioned{Versioned: s, e: e}
	info, err := v.handle().Info(e.Ctx)
	e.Must(err)
	v.program = info.Program
	if info.Schema != info.Program || info.Program < 1 {
		e.Fatalf("Info says schema %d and program %d of a store that was migrated", info.Schema, info.Program)
	}
	e.Cleanup(func() {
		ctx := context.WithoutCancel(e.Ctx)
		err := errors.Join(s.Set(ctx, v.program, 0))
		be, failed := s.Open(ctx)
		if failed == nil {
			failed = errors.Join(be.Uninstall(ctx), be.Close())
		}
		if s.Close != nil {
			err = errors.Join(err, s.Close())
		}
		if err = errors.Join(err, failed); err != nil {
			e.Errorf("uninstall: %v", err)
		}
	})
	return v
}

func (v *versioned) handle() backend.Backend {
	be, err := v.Open(v.e.Ctx)
	v.e.Must(err)
	v.e.Cleanup(func() { be.Close() })
	return be
}

// broker opens a broker on the store: what another process has. Its background work
// would get in the way of what the checks do to the store.
func (v *versioned) broker() *parley.Broker {
	be, err := v.Open(v.e.Ctx)
	v.e.Must(err)
	b, err := newBroker(v.e.Ctx, be, &parley.Options{NoMaintenance: true, Poll: 20 * time.Millisecond})
	v.e.Must(err)
	v.e.Cleanup(func() { b.Close() })
	return b
}

// refused checks that every verb of a broker returns want.
func (v *versioned) refused(b *parley.Broker, want error) {
	for _, verb := range inpBrokerVerbs(inpNowhere(v.e, b), parley.NewID()) {
		if err := verb.do(v.e.Ctx, b); !errors.Is(err, want) {
			v.e.Errorf("%s: the error is %v, want %q", verb.name, err, want)
		}
	}
}

func checkNextSchema(e *env) {
	v := e.versioned()
	b := v.broker()
	w := e.WorldOn(b)
	w.Dialog("0")
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
	e.Must(v.Set(e.Ctx, v.program+1, v.program))
	e.Must(d.Ack(e.Ctx))
	w.Dialog("1")
	dlgBodies(w, w.SQ, nil, "1")

	late := e.WorldOn(v.broker()) // its first use finds the next schema
	late.Dialog("2")
	dlgBodies(late, late.SQ, nil, "2")
	e.Must(late.B.Backend().Check(e.Ctx))
	e.Must(late.B.Migrate(e.Ctx))
	info, err := late.B.Info(e.Ctx)
	e.Must(err)
	if info.Schema != v.program+1 || info.MinProgram != v.program {
		e.Errorf("Info says schema %d for programs from %d on, want %d and %d", info.Schema, info.MinProgram, v.program+1, v.program)
	}
}

func checkOtherSchemas(e *env) {
	v := e.versioned()
	running := e.WorldOn(v.broker())
	running.Dialog("0")
	for _, x := range []struct {
		schema, min int
		want        error
	}{
		{v.program + 2, 0, parley.ErrNewerSchema},
		{99, 0, parley.ErrNewerSchema},
		{v.program, v.program + 1, parley.ErrNewerSchema},
		{-1, 0, parley.ErrUnknownSchema},
	} {
		e.Must(v.Set(e.Ctx, x.schema, x.min))
		b := v.broker()
		v.refused(b, x.want)
		e.Is(b.Backend().Check(e.Ctx), x.want)
		e.Is(b.Migrate(e.Ctx), x.want)
		for what, err := range map[string]error{
			"send": running.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				_, err := tx.Begin(e.Ctx, running.Client, running.Server, &parley.DialogOptions{Contract: running.Contract})
				return err
			}),
			"receive": func() error { _, err := running.B.Receive(e.Ctx, running.SQ, nil); return err }(),
			"define":  running.B.Define(e.Ctx, parley.Catalog{Queues: []parley.Queue{{Name: e.Name("new")}}}),
			"catalog": func() error { _, err := running.B.Catalog(e.Ctx); return err }(),
		} {
			if !errors.Is(err, x.want) {
				e.Errorf("schema %d for programs from %d on: %s: the error is %v, want %q", x.schema, x.min, what, err, x.want)
			}
		}
	}
	e.Must(v.Set(e.Ctx, v.program, 0))
	dlgBodies(running, running.SQ, nil, "0")
}

// checkLeaseOfOld: what was in hand when the schema moved on without waiting is not
// settled, and not lost.
func checkLeaseOfOld(e *env) {
	v := e.versioned()
	w := e.WorldOn(v.broker())
	post := func(body string) {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)})
		e.Must(err)
	}
	w.Dialog("0")
	post("1")
	one := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: 3 * time.Second})
	two := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: 3 * time.Second})
	e.Must(v.Set(e.Ctx, v.program+2, v.program+1))
	e.Is(one.Ack(e.Ctx), parley.ErrNewerSchema)
	e.Is(two.Ack(e.Ctx), parley.ErrNewerSchema)
	e.Must(v.Set(e.Ctx, v.program, 0))
	one.Close()
	two.Close()
	got := map[string]bool{}
	e.Soon(10*time.Second, func() bool {
		for _, m := range w.Drain(w.SQ) {
			got[string(m.Body)] = true
		}
		return len(got) == 2
	})
	if !got["0"] || !got["1"] {
		e.Errorf("after the leases %v were received, want 0 and 1", got)
	}
}

func checkAnnounced(e *env) {
	v := e.versioned()
	w := e.WorldOn(v.broker())
	for _, hold := range e.Holds() {
		w.Dialog("in hand")
		w.Dialog("left")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		e.Must(v.Set(e.Ctx, v.program, v.program+1))
		_, err := w.B.Receive(e.Ctx, w.SQ, nil)
		e.Is(err, parley.ErrNewerSchema)
		_, err = w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any})
		e.Is(err, parley.ErrNewerSchema)
		e.Must(d.Ack(e.Ctx))
		e.Must(v.Set(e.Ctx, v.program, 0))
		dlgBodies(w, w.SQ, nil, "left")
	}
}

func checkWorkerTooOld(e *env) {
	v := e.versioned()
	w := e.WorldOn(v.broker())
	begun, over := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	worker := sure.Of(w.B.NewWorker(w.SQ, parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		close(begun)
		<-over
		return nil
	}), nil))
	w.Dialog("0")
	go func() { done <- worker.Run(e.Ctx) }()
	select {
	case <-begun:
	case <-e.Ctx.Done():
		e.Fatalf("the worker has nothing to do")
	}
	e.Must(v.Set(e.Ctx, v.program, v.program+1))
	time.Sleep(50 * time.Millisecond) // it looks again, while the handler is at work
	close(over)
	select {
	case err := <-done:
		e.Is(err, parley.ErrNewerSchema)
	case <-e.Ctx.Done():
		e.Fatalf("the worker goes on")
	}
	e.Must(v.Set(e.Ctx, v.program, 0))
	w.Nothing(w.SQ, nil)
}
