package mysql

import (
	"context"
	"regexp"
	"strings"
)

// A handler that writes has a savepoint before its first statement. Where the connection takes several statements in a
// text, both are one trip. The end of a transaction removes its savepoints. So the release of the last one also tells
// whether a statement of the application's has ended the transaction.

// point is what is known of savepoints.
type point struct {
	set      string // the last one, which is there unless the transaction has ended
	put      string // statements that come with the next one
	prepared bool   // the application carries out statements unseen
}

// Point implements sqlstore.Pointing.
func (t *transaction) Point(ctx context.Context, text string) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	t.ending.RLock()
	defer t.ending.RUnlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	sets := strings.HasPrefix(text, "SAVEPOINT ")
	later := sets && t.joins(ctx)
	tells := t.applied && !t.p.vitess() && sets == later &&
		t.point.put == "" && t.point.set != "" && strings.HasSuffix(text, t.point.set)
	if !tells {
		if err := t.checked(ctx); err != nil {
			return err
		}
	}
	if !later {
		return t.pointed(ctx, text, tells)
	}
	if t.point.put, t.point.set = text, text; tells {
		t.point.put = "RELEASE " + text + ";\n" + text
	}
	return nil
}

// joins reports whether a savepoint can come with the statement after it.
func (t *transaction) joins(ctx context.Context) bool {
	p := t.p
	if p.vitess() || t.point.prepared || p.single.Load() {
		return false
	}
	if !p.several.Load() {
		_, err := t.conn.ExecContext(context.WithoutCancel(ctx), "DO 0; DO 0")
		p.several.Store(err == nil)
		p.single.Store(number(err) == errSyntax)
	}
	return p.several.Load()
}

// takePoint returns the statements that are to come with the next one, for the caller to carry out.
func (t *transaction) takePoint() (texts string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	texts, t.point.put = t.point.put, ""
	return texts
}

// setPoint carries them out by themselves.
func (t *transaction) setPoint(ctx context.Context, texts string) error {
	if texts == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pointed(ctx, texts, strings.HasPrefix(texts, "RELEASE "))
}

// pointed carries out statements about savepoints. If tells is true, they fail if the transaction has ended. The caller
// has locked t.
func (t *transaction) pointed(ctx context.Context, texts string, tells bool) error {
	err := t.p.answered(context.WithoutCancel(ctx), t.s, func(ctx context.Context) error {
		_, err := t.conn.ExecContext(ctx, texts)
		return err
	})
	switch {
	case err == nil:
		if tells {
			t.applied, t.ends = false, t.ends && t.whole
		}
		t.point.set = texts[strings.LastIndex(texts, "SAVEPOINT "):]
		if texts == "RELEASE "+t.point.set {
			t.point.set = ""
		}
	case tells && number(err) == errNoSavepoint:
		t.lost = t.notWhole()
		return t.lost
	default:
		t.noted(err)
	}
	return err
}

// joinable reports whether a savepoint can come with a statement of the application's: it must not be a call, which may
// have done something when it fails, and the driver must have no reason to have it prepared. With arguments that takes
// interpolateParams.
func (p *pool) joinable(query string, args []any) bool {
	size, marks := len(query), len(args)
	for _, v := range args {
		switch v := v.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	return size < long && plain.MatchString(query) &&
		(marks == 0 || !p.prepares.Load() && strings.Count(query, "?") == marks)
}

// plain matches such statements, also behind comments that name them.
var plain = regexp.MustCompile(`(?i)^\s*(--[ \t][^\n]*\n\s*)*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH)\s`)
