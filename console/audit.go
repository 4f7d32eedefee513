package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/parleymq/parley"
)

// Audited is a person's action. Options.Audit gets it before the action, and again when it is over.
type Audited struct {
	ID     parley.ID  // the same both times
	Action Action     // what Authorize was asked about
	Target string     // and about what
	Form   url.Values // the verb (do) and its parameters; what Said speaks of can be more
	Over   bool
	Said   string // what the person was told, when it is over
	Err    error  // why it was not done, or not all of it
}

// audited does what a form asks for, and has it recorded.
func (h *Handler) audited(ctx context.Context, r *http.Request, v verb, q url.Values) (said, next string, err error) {
	a := Audited{ID: parley.NewID(), Action: v.action, Target: q.Get(v.params[0]), Form: q}
	if h.opt.Audit != nil {
		if err := h.opt.Audit(ctx, r, a); err != nil {
			h.log.Error("parley: console: a person's action cannot be recorded", "event", "console.failed", "id", a.ID, "error", err)
			return "", "", fmt.Errorf("nothing was done, since it cannot be recorded: %w", err)
		}
	}
	if v.slice != nil {
		a.Said, next, a.Err = v.slice(h, ctx, q)
	} else {
		a.Said, a.Err = v.do(h, ctx, q)
	}
	a.Over = true
	attrs := []any{"event", "console.acted", "id", a.ID, "verb", q.Get("do"), "target", a.Target, "queue", q.Get("queue"), "remote", r.RemoteAddr}
	if a.Err != nil {
		a.Said = ""
		h.log.Warn("parley: console: a person's action failed", append(attrs, "error", a.Err)...)
	} else {
		h.log.Info("parley: console: a person acted", append(attrs, "said", a.Said)...)
	}
	if h.opt.Audit != nil {
		if err := h.opt.Audit(ctx, r, a); err != nil { // it is done; what was recorded before says that it may be
			h.log.Error("parley: console: the end of a person's action cannot be recorded", "event", "console.failed", "id", a.ID, "error", err)
		}
	}
	return a.Said, next, a.Err
}
