package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "L09", Name: "names are compared byte by byte", Run: checkLockNames},
		check{ID: "L09", Name: "long names, and those of another store", Run: checkLockLongNames},
		check{ID: "L10", Name: "intent on the parent, exclusive on the child", Run: checkLockHierarchy},
	)
}

func checkLockNames(e *env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("name")
	lckGet(e, a, name, backend.LockX)
	for _, other := range []string{e.Name("Name"), name + " ", " " + name, name + "\u0301", name + "%"} {
		lckTry(e, b, other, backend.LockX, true, fmt.Sprintf("while another session holds %q, asking for %q", name, other))
	}
	lckTry(e, b, name, backend.LockIS, false, "while another session holds it")
}

func checkLockLongNames(e *env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	stem := e.Name("")
	fill := func(r string, n int, end string) string {
		return stem + strings.Repeat(r, n-utf8.RuneCountInString(stem)-utf8.RuneCountInString(end)) + end
	}
	for _, r := range []string{"x", "\u00e9", "\U0001F600"} {
		lckGet(e, a, fill(r, backend.MaxLockName, "1"), backend.LockX)
		lckTry(e, b, fill(r, backend.MaxLockName, "2"), backend.LockX, true, "while another holds a name that differs in the 255th character")
		lckTry(e, b, fill(r, backend.MaxLockName, "1"), backend.LockIS, false, "while another holds it")
		for _, n := range []int{backend.MaxLockName + 1, 300, 5000} {
			if _, err := b.Lock(e.Ctx, fill(r, n, "1"), backend.LockX, 0); err == nil || errors.Is(err, backend.ErrLockTimeout) {
				e.Errorf("a name of %d characters: %v, want it refused", n, err)
			}
		}
	}
	if e.r.store.Fresh == nil {
		return
	}
	other, err := e.r.store.Fresh(e.Ctx)
	e.Must(err)
	e.Cleanup(func() {
		if err := other.Uninstall(context.WithoutCancel(e.Ctx)); err != nil {
			e.Errorf("uninstall: %v", err)
		}
		other.Close()
	})
	e.Must(other.Migrate(e.Ctx))
	lckTry(e, lckSession(e, other), fill("x", backend.MaxLockName, "1"), backend.LockX, true, "while another holds it in another store")
}

func checkLockHierarchy(e *env) {
	one, two, whole := lckSession(e, e.Handle()), lckSession(e, e.Handle()), lckSession(e, e.Handle())
	parent, first, second := e.Name("orders"), e.Name("orders/1"), e.Name("orders/2")
	lckGet(e, one, parent, backend.LockIX)
	lckGet(e, one, first, backend.LockX)
	lckTry(e, whole, parent, backend.LockS, false, "while another works on a child")
	lckTry(e, whole, parent, backend.LockIS, true, "to look at a child, while another works on one")
	lckTry(e, two, parent, backend.LockIX, true, "to work on another child")
	lckGet(e, two, parent, backend.LockIX)
	lckTry(e, two, first, backend.LockS, false, "on a child that another works on")
	lckGet(e, two, second, backend.LockX)
	e.Must(one.Unlock(e.Ctx, first))
	e.Must(one.Unlock(e.Ctx, parent))
	lckTry(e, whole, parent, backend.LockS, false, "while the second still works on a child")
	e.Must(two.Unlock(e.Ctx, second))
	e.Must(two.Unlock(e.Ctx, parent))
	lckGet(e, whole, parent, backend.LockS)
	lckTry(e, one, parent, backend.LockIX, false, "while another has the whole")
	lckTry(e, one, parent, backend.LockIS, true, "to look at a child, while another has the whole")
}
