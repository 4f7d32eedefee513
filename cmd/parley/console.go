package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/console"
)

// served is where the console is.
type served struct {
	URL   string
	Token string `json:"token,omitempty"` // for those who act, and for browsers on other machines
}

// console serves the website until the command is told to stop.
func (c *call) console() *cobra.Command {
	var addr string
	var hosts []string
	var bodies, write bool
	cmd := c.verb("console", "Serve a website that shows queues, groups, plans, locks and why something is stuck",
		"parley console\nparley console --write --bodies", cobra.NoArgs,
		func(ctx context.Context, b *parley.Broker, _ []string) error {
			listener, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			o := console.Options{Hosts: hosts, Write: write, Logger: slog.New(slog.NewTextHandler(c.stderr, nil))}
			says := served{URL: "http://" + listener.Addr().String() + "/"}
			if a, ok := listener.Addr().(*net.TCPAddr); write || ok && !a.IP.IsLoopback() {
				o.Token = rand.Text()
				says.Token = o.Token
			}
			if bodies {
				o.Redact = func(_, _ string, body []byte) string { return backend.CleanText(string(body), len(body)+1) }
			}
			h, err := console.New(b, &o)
			if err != nil {
				listener.Close()
				return err
			}
			if err := c.tellServed(says); err != nil {
				listener.Close()
				return err
			}
			return serveHTTP(ctx, listener, h)
		})
	cmd.Long = "Serve a website that shows queues, groups, conversations, plans, locks and why something is stuck. It changes\n" +
		"nothing without --write. To act takes the token that is printed, which is entered once; so does looking from other\n" +
		"machines, for which --addr has another address than this machine's loopback."
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:8470", "serve on this `address`")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "a host `name` under which browsers may reach the console; may be repeated")
	cmd.Flags().BoolVar(&write, "write", false, "let the person who enters the token retry, promote, skip and discard")
	cmd.Flags().BoolVar(&bodies, "bodies", false, "show the bodies of messages too")
	return cmd
}

func (c *call) tellServed(says served) error {
	if c.json {
		return c.encode(says)
	}
	c.printf("%s\n", says.URL)
	if says.Token != "" {
		c.printf("token: %s\n", says.Token)
	}
	return nil
}

// serveHTTP serves until ctx ends, and then lets what is under way come to its end.
func serveHTTP(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }} // so streams end with ctx
	over := make(chan error, 1)
	go func() { over <- server.Serve(listener) }()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if serve := <-over; !errors.Is(serve, http.ErrServerClosed) {
		err = errors.Join(err, serve)
	}
	return err
}
