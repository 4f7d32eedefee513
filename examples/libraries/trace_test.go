package libraries

import (
	"context"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parleymq/parley"
)

// traced opens a Broker that hands the trace on, and makes a Mux that takes it up.
func traced(ctx context.Context, dsn string) (*parley.Broker, *parley.Mux, error) {
	b, err := parley.Open(ctx, dsn, &parley.Options{Outgoing: func(ctx context.Context, o *parley.Outgoing) error {
		otel.GetTextMapPropagator().Inject(ctx, propagation.MapCarrier(o.Headers))
		return nil
	}})
	if err != nil {
		return nil, nil, err
	}
	mux := parley.NewMux()
	mux.Use(func(next parley.Handler) parley.Handler {
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.MapCarrier(m.Headers))
			return next.HandleMessage(ctx, m)
		})
	})
	return b, mux, nil
}

// TestTrace: a handler works in the trace of the program that posted.
func TestTrace(t *testing.T) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	b, mux, err := traced(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	if _, err := b.Post(trace.ContextWithSpanContext(t.Context(), span), "mail", parley.Payload{}); err != nil {
		t.Fatal(err)
	}
	var found trace.TraceID
	mux.HandleFunc(parley.DefaultType, func(ctx context.Context, _ *parley.Message) error {
		found = trace.SpanContextFromContext(ctx).TraceID()
		return nil
	})
	worker, err := b.NewWorker("mail", mux, nil)
	if err == nil {
		err = worker.Drain(t.Context())
	}
	if err != nil || found != span.TraceID() {
		t.Errorf("trace %s, want %s; %v", found, span.TraceID(), err)
	}
}
