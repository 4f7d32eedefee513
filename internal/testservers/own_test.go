//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// revivable is an engine whose server can be killed.
type revivable struct {
	*fakeEngine
	fails int // how often the next revivals fail
}

func (e *revivable) Kill(_ context.Context, in *instance) error {
	if err := os.Remove(in.file("alive")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (e *revivable) Quit(ctx context.Context, in *instance) error { return e.Kill(ctx, in) }

func (e *revivable) Revive(_ context.Context, in *instance) error {
	if e.fails--; e.fails >= 0 {
		return errors.New("still in use")
	}
	return in.write("alive", "again")
}

func (w *world) ownServer(t *testing.T, verb, name string) (out string, err error) {
	t.Helper()
	var said strings.Builder
	_, err = ownCommand(t.Context(), w.env, []string{"label", verb, name}, &said)
	return strings.TrimSpace(said.String()), err
}

// TestOwnServer starts a server beside that of the variable, kills it, and finds its data
// when it is back.
func TestOwnServer(t *testing.T) {
	w := newWorld(t)
	w.vars["TEST_SERVER"] = "fake://elsewhere/db"
	engine := &revivable{fakeEngine: w.server, fails: 2}
	specs[1].engine = engine
	out, err := w.ownServer(t, "start", "server")
	if want := "export TEST_SERVER='fake://local/server?behind='"; err != nil || out != want {
		t.Fatalf("start: %q %v, want %q", out, err, want)
	}
	folder, err := w.ownServer(t, "folder", "server")
	if err != nil || !strings.HasSuffix(folder, "server~label") {
		t.Fatalf("folder: %q %v", folder, err)
	}
	if _, err := w.ownServer(t, "kill", "server"); err != nil {
		t.Fatal(err)
	}
	in := &instance{spec: specs[1], dir: folder}
	if engine.Running(in) {
		t.Error("it was killed and runs")
	}
	for _, verb := range []string{"revive", "restart"} {
		if _, err := w.ownServer(t, verb, "server"); err != nil || !engine.Running(in) {
			t.Errorf("%s: %v, running %t", verb, err, engine.Running(in))
		}
	}
	if w.starts != 1 {
		t.Errorf("%d starts on empty data, want 1", w.starts)
	}
	for _, verb := range []string{"failover", "switchover", "repair"} {
		if _, err := w.ownServer(t, verb, "server"); err == nil {
			t.Errorf("%s: a server without a standby can", verb)
		}
	}
	if _, err := w.ownServer(t, "stop", "server"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}

func TestOwnServerThatCannotBeHad(t *testing.T) {
	w := newWorld(t)
	w.server.find = errors.New("no such program")
	code, err := ownCommand(t.Context(), w.env, []string{"label", "start", "server"}, new(strings.Builder))
	if !errors.Is(err, errMissing) || code != codeMissing {
		t.Errorf("code %d, error %v, want %d and that it is missing", code, err, codeMissing)
	}
	if _, err := w.ownServer(t, "kill", "sevrer"); err == nil {
		t.Error("no error for an unknown name")
	}
}
