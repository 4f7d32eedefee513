//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test program be the real one in a separate process.
func TestMain(m *testing.M) {
	if os.Getenv("TESTSERVERS_RUN_MAIN") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process prepares a testservers process with its own cache folder and without
// the variables of the exec in which this test may run.
func process(t *testing.T, cache string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PARLEY_TEST_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	// The race detector would otherwise sleep for a second at the end of each.
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=10")
	cmd.Env = append(cmd.Env, "TESTSERVERS_RUN_MAIN=1", "PARLEY_TEST_CACHE="+cache, "PARLEY_TEST_INSTALL=0")
	cmd.Stderr = testWriter{t}
	return cmd
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func TestExitCode(t *testing.T) {
	cache := openTempDir(t)
	for _, tc := range []struct {
		args []string
		env  string
		want int
	}{
		{[]string{"exec", "-only", "sqlite", "--", "true"}, "", 0},
		{[]string{"exec", "-only", "sqlite", "--", "sh", "-c", "exit 7"}, "", 7},
		{[]string{"exec", "-only", "sqlite", "--", "sh", "-c", "kill -TERM $$"}, "", 128 + 15},
		{[]string{"exec", "-only", "sqlite", "--", "/no/such/program"}, "", 1},
		{[]string{"exec", "-only", "sqlite", "--", "true"}, "PARLEY_TEST_REQUIRE=postgres", 1},
		{[]string{"exec", "-only", "sqlite", "--", "true"}, "PARLEY_TEST_REQUIRE=sqlite", 0},
		{[]string{"exec"}, "", 2},
		{[]string{"nonsense"}, "", 2},
	} {
		cmd := process(t, cache, tc.args...)
		cmd.Env = append(cmd.Env, tc.env)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != tc.want {
			t.Errorf("%q with %q returns %d, want %d", tc.args, tc.env, got, tc.want)
		}
	}
}

// A signal for exec reaches the command's children too: go test does not pass
// signals to the test programs that it runs.
func TestSignalReachesTheWholeGroup(t *testing.T) {
	cmd := process(t, openTempDir(t), "exec", "-only", "sqlite", "--", "sh", "-c", "sh -c 'echo ready; exec sleep 60'; exit 3")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	rest, err := io.ReadAll(out) // ends when the grandchild has closed its output too
	if err != nil || len(rest) > 0 {
		t.Fatalf("output %q, error %v", rest, err)
	}
	_ = cmd.Wait()
	if got, took := cmd.ProcessState.ExitCode(), time.Since(start); got != 128+15 || took > 30*time.Second {
		t.Errorf("exit code is %d after %v, want %d at once", got, took, 128+15)
	}
}

// TestRealServers starts PostgreSQL, PgBouncer and MariaDB in separate processes.
func TestRealServers(t *testing.T) {
	const real = "postgres,pgbouncer,mariadb"
	if testing.Short() {
		t.Skip("starts servers")
	}
	for _, s := range specs {
		if !contains(splitNames(real), s.name) {
			continue
		}
		if err := s.engine.Find(); err != nil {
			t.Skip(err)
		}
	}
	cache := openTempDir(t)
	// The processes have a separate cache folder, with the programs that Find saw.
	found, err := cacheFolder(environment{get: os.Getenv})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(found, "programs"), filepath.Join(cache, "programs")); err != nil {
		t.Fatal(err)
	}
	// The process leaves nothing behind even when the test fails half-way.
	t.Cleanup(func() { _ = process(t, cache, "stop").Run() })

	users := []caller{startCaller(t, cache, real), startCaller(t, cache, real)} // at once
	read := func(u caller) (server, bouncer, maria string) {
		t.Helper()
		line := make([]byte, 1000)
		n, err := u.out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(line[:n]))
		if len(fields) != 3 {
			t.Fatalf("variables are %q", line[:n])
		}
		return fields[0], fields[1], fields[2]
	}
	finish := func(u caller) {
		t.Helper()
		if _, err := io.WriteString(u.in, "\n"); err != nil {
			t.Fatal(err)
		}
		_ = u.cmd.Wait()
		if code := u.cmd.ProcessState.ExitCode(); code != 5 {
			t.Errorf("exit code is %d, want 5", code)
		}
	}
	server, bouncer, maria := read(users[0])
	if s, b, m := read(users[1]); s != server || b != bouncer || m != maria {
		t.Errorf("two users have different servers: %s %s %s and %s %s %s", server, bouncer, maria, s, b, m)
	}
	answer(t, server, bouncer, maria)
	finish(users[0])
	answer(t, server, bouncer, maria) // for the second user
	finish(users[1])
	for _, address := range []string{server, bouncer} {
		if _, err := queryRow(t.Context(), address, "SELECT 1"); err == nil {
			t.Errorf("%s still answers after its last user", address)
		}
	}
	if _, err := greeting(t.Context(), maria); err == nil {
		t.Errorf("%s still answers after its last user", maria)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*", "run", "data")); len(left) > 0 {
		t.Errorf("data is left in %q", left)
	}
	startAndStop(t, cache, real)
}

// answer checks that servers at these addresses answer, and as they were set up.
func answer(t *testing.T, server, bouncer, maria string) {
	t.Helper()
	for sql, want := range map[string]string{
		"SHOW max_connections":           "300",
		"SHOW max_prepared_transactions": "50",
		"SHOW fsync":                     "on",
		"SELECT 6 * 7":                   "42",
	} {
		for _, address := range []string{server, bouncer} {
			if got, err := queryRow(t.Context(), address, sql); err != nil || got != want {
				t.Errorf("%s at %s: %q, %v, want %q", sql, address, got, err, want)
			}
		}
	}
	if version, err := greeting(t.Context(), maria); err != nil || !strings.Contains(version, "MariaDB") {
		t.Errorf("MariaDB greets with %q, %v", version, err)
	}
	version, err := queryRow(t.Context(), strings.Replace(bouncer, "/postgres?", "/pgbouncer?", 1), "SHOW VERSION")
	if err != nil || !strings.HasPrefix(version, "PgBouncer ") {
		t.Errorf("what stands in front calls itself %q, %v", version, err)
	}
}

// caller is a command that uses servers, until it has been told to go on.
type caller struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func startCaller(t *testing.T, cache, real string) caller {
	t.Helper()
	const print = `echo "$PARLEY_TEST_POSTGRES $PARLEY_TEST_PGBOUNCER $PARLEY_TEST_MARIADB"; read line; exit 5`
	cmd := process(t, cache, "exec", "-only", real, "--", "sh", "-c", print)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A caller that the test leaves early gives its servers back, before their folder goes.
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return caller{cmd, in, out}
}

// startAndStop starts servers that stay up, and has them used and stopped.
func startAndStop(t *testing.T, cache, real string) {
	run := func(args ...string) string {
		t.Helper()
		out, err := process(t, cache, args...).Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(out)
	}
	run("start", real)
	if text := run("status"); strings.Count(text, "running, until stop") != 3 {
		t.Errorf("status after start:\n%s", text)
	}
	// The server behind comes back under a front that has stayed.
	run("stop", "postgres")
	if text := run("exec", "-only", real, "--", "true"); text != "" {
		t.Errorf("exec prints %q to standard output, which is the command's", text)
	}
	run("stop")
	if text := run("status"); strings.Contains(text, "running") {
		t.Errorf("status after stop:\n%s", text)
	}
}
