package main

import (
	"context"
	"fmt"
	"log/slog"
)

// strandings writes down that maintenance found stranded messages. It makes them ready again, so that
// nothing else in a history would tell of them.
type strandings struct {
	slog.Handler
	rec *recorder
}

func (s strandings) Enabled(context.Context, slog.Level) bool { return true }

func (s strandings) Handle(_ context.Context, r slog.Record) error {
	var text string
	stranded := false
	r.Attrs(func(a slog.Attr) bool {
		stranded = stranded || a.Key == "event" && a.Value.String() == "group.stranded"
		text += fmt.Sprint(" ", a)
		return true
	})
	if stranded {
		s.rec.write(event{Kind: failed, Name: r.Message + text})
	}
	return nil
}
