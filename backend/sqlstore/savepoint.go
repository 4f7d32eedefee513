package sqlstore

import (
	"context"
	"fmt"
	"slices"
)

// A savepoint is set by the first statement after it. A handler that changes nothing, or only ends conversations, then
// costs none.

// point is how many of what a transaction keeps in lists there were at a
// savepoint. What was looked at before it is rolled back to is still so.
type point struct {
	used, parted int
	begun        []Begun
	ends         []SideEnd
	undecided    []LateEnd
}

// Savepoint implements backend.Tx. The name is given a beginning that makes it
// no word of SQL's.
func (t *Tx) Savepoint(ctx context.Context, name string) error {
	if err := t.pointable(ctx, name); err != nil {
		return err
	}
	if err := t.reach(ctx); err != nil {
		return err
	}
	set := func(ctx context.Context) error { return t.savepoint(ctx, t.s.d.SetPoint, "SAVEPOINT ", name) }
	if !t.unseen() {
		t.put, t.verb.point = name, set
	} else if err := set(ctx); err != nil {
		return err
	}
	t.setPoint(name)
	return nil
}

func (t *Tx) setPoint(name string) {
	if t.points == nil {
		t.points = make(map[string]point)
	}
	t.points[name] = point{len(t.used), len(t.parted), slices.Clone(t.begun), slices.Clone(t.ends), slices.Clone(t.undecided)}
}

// RollbackTo implements backend.Tx.
func (t *Tx) RollbackTo(ctx context.Context, name string) error {
	set := !t.isPut(name)
	if set {
		t.verb.point = nil                            // a later savepoint is gone
		t.guarded, t.sent, t.vanished = nil, nil, nil // such locks end with the savepoint, and what was removed is back
		t.returned = true
		if err := t.savepoint(ctx, t.s.d.BackToPoint, "ROLLBACK TO SAVEPOINT ", name); err != nil {
			return err
		}
	} else if err := t.usable(ctx); err != nil {
		return err
	}
	p := t.points[name] // what came by promotions is back, and what was removed
	t.used, t.parted = t.used[:min(p.used, len(t.used))], t.parted[:min(p.parted, len(t.parted))]
	t.begun, t.ends, t.undecided = slices.Clone(p.begun), slices.Clone(p.ends), slices.Clone(p.undecided)
	if !set {
		return nil
	}
	return t.ownAgain(ctx)
}

// Release implements backend.Tx.
func (t *Tx) Release(ctx context.Context, name string) error {
	put := t.isPut(name)
	if t.verb.point = nil; put {
		return t.usable(ctx)
	}
	return t.savepoint(ctx, t.s.d.ReleasePoint, "RELEASE SAVEPOINT ", name)
}

// Resave implements backend.Tx, in one round trip where the engine can.
func (t *Tx) Resave(ctx context.Context, name string) error {
	switch {
	case t.isPut(name):
		t.setPoint(name)
		return t.usable(ctx)
	case t.s.d.Replaces:
		return t.Savepoint(ctx, name)
	case !t.s.d.Several:
		if err := t.Release(ctx, name); err != nil {
			return err
		}
		return t.Savepoint(ctx, name)
	}
	if err := t.savepoint(ctx, nil, "RELEASE SAVEPOINT s_"+name+"; SAVEPOINT ", name); err != nil {
		return err
	}
	t.setPoint(name)
	return nil
}

// isPut reports whether a savepoint is still to be set.
func (t *Tx) isPut(name string) bool { return t.verb.point != nil && t.put == name }

// pointable reports what keeps a savepoint from being set.
func (t *Tx) pointable(ctx context.Context, name string) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	if len(name) > 60 || !names.MatchString(name) {
		return fmt.Errorf("parley: savepoint %q: want a-z, 0-9 and _", name)
	}
	return nil
}

func (t *Tx) savepoint(ctx context.Context, write func(string) string, standard, name string) error {
	if err := t.pointable(ctx, name); err != nil {
		return err
	}
	name = "s_" + name
	text := standard + name
	if write != nil {
		text = write(name)
	}
	if text == "" {
		return nil
	}
	if p, ok := t.tr.(Pointing); ok {
		return t.s.fail(ctx, p.Point(ctx, text))
	}
	_, err := t.execer().ExecContext(ctx, text)
	return t.s.fail(ctx, err)
}
