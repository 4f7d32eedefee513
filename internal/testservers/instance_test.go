//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Locks of one process conflict as those of several do, so users that live in
// one process stand for processes here.

func TestLastUserStops(t *testing.T) {
	w := newWorld(t)
	first, err := resolve(t.Context(), w.env, []string{"server"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := resolve(t.Context(), w.env, []string{"server"})
	if err != nil {
		t.Fatal(err)
	}
	if w.starts != 1 {
		t.Fatalf("started %d times, want once", w.starts)
	}
	if err := first.leave(t.Context()); err != nil { // it started the server
		t.Fatal(err)
	}
	if len(w.stopped) != 0 {
		t.Fatal("stopped under its second user")
	}
	if err := second.leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.stopped) != 1 {
		t.Fatalf("stopped %d times after its last user, want once", len(w.stopped))
	}
}

func TestManyUsersAtOnce(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 3 {
				list, err := resolve(context.Background(), w.env, []string{"server"})
				if err != nil {
					t.Error(err)
					return
				}
				in := list[0].instance
				if !in.spec.engine.Running(in) {
					t.Error("a server does not run while it is used")
				}
				time.Sleep(time.Millisecond)
				if !in.spec.engine.Running(in) {
					t.Error("a server was stopped while it was used")
				}
				if err := list.leave(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if w.starts == 0 || w.starts != len(w.stopped) {
		t.Errorf("%d starts, %d stops", w.starts, len(w.stopped))
	}
}

func TestStartKeepsUntilStop(t *testing.T) {
	w := newWorld(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	must(startCommand(t.Context(), w.env, []string{"server"}, &out))
	must(startCommand(t.Context(), w.env, []string{"server"}, &out))
	if want := "export TEST_SERVER='fake://local/server?behind='\n"; out.String() != want+want {
		t.Errorf("start prints %q", out.String())
	}
	list, err := resolve(t.Context(), w.env, []string{"server"})
	must(err)
	must(list.leave(t.Context()))
	if w.starts != 1 || len(w.stopped) != 0 {
		t.Fatalf("%d starts and %d stops, want 1 and 0", w.starts, len(w.stopped))
	}
	// stop leaves a server to those who use it, the last of whom stops it.
	list, err = resolve(t.Context(), w.env, []string{"server"})
	must(err)
	must(stopCommand(t.Context(), w.env, nil))
	if len(w.stopped) != 0 {
		t.Fatal("stop took the server away from its user")
	}
	must(list.leave(t.Context()))
	must(stopCommand(t.Context(), w.env, nil))
	if len(w.stopped) != 1 {
		t.Fatalf("stopped %d times, want once", len(w.stopped))
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	list := w.resolve(t, "server")
	w.front.find = errors.New("no such program")
	var out strings.Builder
	if err := statusCommand(t.Context(), w.env, &out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"in the test process", "local/server  running, until its last user ends, in use", "no such program"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("status does not say %q:\n%s", text, out.String())
		}
	}
	if !list[0].instance.spec.engine.Running(list[0].instance) {
		t.Error("status stopped the server")
	}
}

// A server in front is started again when the one behind it has come back
// under another address.
func TestFrontFollowsItsServer(t *testing.T) {
	w := newWorld(t)
	for i, upstream := range []string{"fake://one", "fake://one", "fake://two"} {
		in, err := newInstance(w.env, specs[2], upstream, true)
		if err != nil {
			t.Fatal(err)
		}
		address, _, leave, err := in.use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := "fake://local/front?behind=" + upstream; address != want {
			t.Errorf("address is %q, want %q", address, want)
		}
		if err := in.keep(); err != nil {
			t.Fatal(err)
		}
		if err := leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := max(1, i); w.starts != want {
			t.Errorf("%d starts after %d uses, want %d", w.starts, i+1, want)
		}
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	take := func(exclusive bool) *os.File {
		t.Helper()
		f, err := tryLock(path, exclusive)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	refused := func(exclusive bool) {
		t.Helper()
		if f, err := tryLock(path, exclusive); !errors.Is(err, errLocked) {
			t.Fatalf("lock is %v, error %v, want errLocked", f, err)
		}
	}
	one, two := take(false), take(false)
	refused(true)
	one.Close()
	refused(true)
	two.Close()
	alone := take(true)
	refused(false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for a lock ends with %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { alone.Close() })
	f, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestPort(t *testing.T) {
	w := newWorld(t)
	choose := func(server int, name string) int {
		t.Helper()
		in, err := newInstance(w.env, specs[server], "", true)
		if err != nil {
			t.Fatal(err)
		}
		port, err := in.port(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	port := choose(1, "sql")
	if again := choose(1, "sql"); again != port {
		t.Errorf("port was %d and is now %d, though no process took it", port, again)
	}
	seen := map[int]bool{port: true}
	for _, name := range []string{"other", "sql"} {
		p := choose(2, name)
		if seen[p] {
			t.Errorf("port %d is given twice", p)
		}
		seen[p] = true
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := choose(1, "sql")
	if other == port {
		t.Error("keeps a port that something else listens on")
	}
	if again := choose(1, "sql"); again != other {
		t.Errorf("forgets the new port %d for %d", other, again)
	}
}

func TestClosedParent(t *testing.T) {
	dir := openTempDir(t)
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := closedParent(filepath.Join(closed, "a", "b")); got != closed {
		t.Errorf("closedParent is %q, want %q", got, closed)
	}
	if got := closedParent(filepath.Join(dir, "a", "b")); got != "" {
		t.Errorf("closedParent is %q, want none", got)
	}
}

func TestBackgroundIsKnown(t *testing.T) {
	in, err := newInstance(newWorld(t).env, specs[1], "", true)
	if err == nil {
		err = errors.Join(os.Mkdir(in.home(), 0o700), handOver(in.home()))
	}
	if err != nil {
		t.Fatal(err)
	}
	// A shell that shows its home only when it becomes another stands for a program that
	// the system has not shown yet.
	if err := in.background("late", "/bin/sh", "-c", `sleep 0.1; exec /bin/sh -c "sleep 60; exit" "$PWD"`); err != nil {
		t.Fatal(err)
	}
	pid := in.pid("late.pid")
	if pid == 0 {
		t.Fatal("a program that runs was not known when its start had returned")
	}
	if err := kill(-pid, "KILL"); err != nil {
		t.Error(err)
	}
	err = in.background("ended", "/bin/sh", "-c", "echo out of memory; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("a program that ended at once: %v, want how it ended and what it printed", err)
	}
}

// TestScriptIsKnown: scripts execute each other and then a program. It counts as alive at each
// look, although the system shows no command line while one replaces another.
func TestScriptIsKnown(t *testing.T) {
	in := &instance{dir: t.TempDir()}
	if err := os.Mkdir(in.home(), 0o755); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(in.home(), "again.sh")
	text := "n=$1; shift; [ $n = 0 ] && exec sleep 30; exec sh \"$0\" $((n-1)) \"$@\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{script, "300"}, slices.Repeat([]string{strings.Repeat("x", 1000)}, 90)...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := os.WriteFile(filepath.Join(in.home(), "server.pid"), fmt.Appendln(nil, cmd.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	looks := 0
	for ; !strings.HasPrefix(commandLine(cmd.Process.Pid), "sleep"); looks++ {
		if in.pid("server.pid") == 0 && !strings.HasPrefix(commandLine(cmd.Process.Pid), "sleep") {
			t.Fatalf("look %d: a living process counts as ended", looks)
		}
	}
	t.Logf("%d looks", looks)
}

func TestServerEnv(t *testing.T) {
	got := serverEnv([]string{"PATH=/bin", "PGDATA=/x", "PGOPTIONS=y", "LC_ALL=de_DE"})
	if want := []string{"LC_ALL=C", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("environment is %q, want %q", got, want)
	}
}
