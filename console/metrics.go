package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
)

// metrics answers Prometheus.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	if !h.allowed(w, r, View, "") {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.opt.Limit)
	defer cancel()
	text, err := h.gauges(ctx)
	if err != nil {
		t := explained(err)
		http.Error(w, t.Text, t.Status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text)
}

// gauges is the state of all queues as Prometheus reads it.
func (h *Handler) gauges(ctx context.Context) ([]byte, error) {
	queues, err := h.queues(ctx)
	if err != nil {
		return nil, err
	}
	dead, err := h.deadCount(ctx)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, g := range []struct {
		name, help string
		value      func(q queueRow) float64
	}{
		{"parley_depth", "Messages that are ready or in a receiver's hands, up to 10000.", func(q queueRow) float64 { return float64(q.Depth) }},
		{"parley_oldest_seconds", "Age of the oldest message that is ready or in a receiver's hands.", func(q queueRow) float64 { return q.Oldest.Seconds() }},
		{"parley_delayed", "Posts that are not due yet, up to 10000.", func(q queueRow) float64 { return float64(q.Delayed) }},
		{"parley_withheld", "Messages that wait for the queue, up to 10000.", func(q queueRow) float64 { return float64(q.Withheld) }},
		{"parley_leased_groups", "Groups held by lease.", func(q queueRow) float64 { return float64(q.Leased) }},
		{"parley_deferred_groups", "Groups that are put off.", func(q queueRow) float64 { return float64(q.Deferred) }},
		{"parley_parked_groups", "Groups that wait for an operator.", func(q queueRow) float64 { return float64(q.Parked) }},
		{"parley_dead_letters", "Dead letters, among the newest 100 of all queues.", func(q queueRow) float64 { return float64(dead[q.Name]) }},
		{"parley_readers", "Handlers that live workers may run at once.", func(q queueRow) float64 { return float64(q.Readers) }},
		{"parley_groups_in_hand", "Groups that live workers have in hand, or had last.", func(q queueRow) float64 { return float64(q.InHand) }},
		{"parley_disabled", "1 if the queue is disabled.", func(q queueRow) float64 { return float64(number01(q.Disabled)) }},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", g.name, g.help, g.name)
		for _, q := range queues {
			fmt.Fprintf(&b, "%s{queue=\"%s\"} %g\n", g.name, labels.Replace(q.Name), g.value(q))
		}
	}
	return b.Bytes(), nil
}

// labels escapes what the format has a meaning for.
var labels = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
