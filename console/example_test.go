package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
	"github.com/parleymq/parley/console"
)

// mount shows the console to operators, below a separate path.
func mount(b *parley.Broker, mux *http.ServeMux, user func(*http.Request) (name string, operator bool)) error {
	c, err := console.New(b, &console.Options{
		Authorize: func(r *http.Request, a console.Action, target string) error {
			if name, operator := user(r); !operator {
				return fmt.Errorf("%q is no operator", name)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/console/", http.StripPrefix("/console", c))
	return nil
}

func Example() {
	ctx := context.Background()
	b, err := parley.Open(ctx, "memory:", nil)
	if err != nil {
		panic(err)
	}
	defer b.Close()
	if err := errors.Join(b.Migrate(ctx), b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}})); err != nil {
		panic(err)
	}

	mux := http.NewServeMux()
	err = mount(b, mux, func(r *http.Request) (string, bool) { // a real program looks at its own session
		name, _, _ := r.BasicAuth()
		return name, name == "ann"
	})
	if err != nil {
		panic(err)
	}
	for _, user := range []string{"bob", "ann"} {
		r := httptest.NewRequest(http.MethodGet, "/console/queue?name=mail", nil)
		r.SetBasicAuth(user, "")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// bob 403
	// ann 200
}
