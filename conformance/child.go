package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

// Some checks need real processes, to kill them. A child is this program again
// with the role in its environment: Run and Main look there first.
const roleEnv = "PARLEY_CONFORMANCE_ROLE"

// role is what a child does. It works on a separate Broker until it is done or killed, and
// exchanges lines of text with its parent.
type role func(ctx context.Context, b *parley.Broker, args []string, say func(format string, args ...any), hear *bufio.Scanner) error

var roles = map[string]role{}

// addRole is called by the init functions of the files with the checks.
func addRole(name string, r role) { roles[name] = r }

// childMain plays the role if this process is a child, and reports whether it
// was one.
func childMain(s Store) bool {
	env := os.Getenv(roleEnv)
	if env == "" {
		return false
	}
	fields := strings.Split(env, "\x1f")
	say := func(format string, args ...any) { fmt.Printf("\nPARLEY "+format+"\n", args...) }
	err := func() error {
		play, ok := roles[fields[0]]
		if !ok {
			return fmt.Errorf("there is no role %q", fields[0])
		}
		ctx := context.Background()
		be, err := s.Open(ctx)
		if err != nil {
			return err
		}
		b, err := newBroker(ctx, be, nil)
		if err != nil {
			return err
		}
		defer b.Close()
		return play(ctx, b, fields[1:], say, bufio.NewScanner(os.Stdin))
	}()
	if err != nil {
		say("error %v", err)
		os.Exit(1)
	}
	say("done")
	return true
}

// child is a running child process.
type child struct {
	e     *env
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// Child starts a process that plays a role on the same store. It is killed at
// the end of the check. Checks that need one are skipped where the store cannot
// be shared with another process.
func (e *env) Child(role string, args ...string) *child {
	if e.r.store.Process == "" {
		e.Skipf("the store cannot be opened by another process")
	}
	exe, err := os.Executable()
	e.Must(err)
	c := &child{e: e, cmd: exec.Command(exe, e.r.args...), lines: make(chan string, 1000)}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join(append([]string{role}, args...), "\x1f"), StoreEnv+"="+e.r.store.Process)
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	e.Must(err)
	out, err := c.cmd.StdoutPipe()
	e.Must(err)
	e.Must(c.cmd.Start())
	e.Cleanup(c.Kill)
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			if line, ok := strings.CutPrefix(s.Text(), "PARLEY "); ok {
				c.lines <- line
			}
		}
	}()
	return c
}

// Hear returns the child's next line, or ends the check if none comes or the child fails.
func (c *child) Hear() string {
	select {
	case line, ok := <-c.lines:
		if !ok || strings.HasPrefix(line, "error ") {
			c.e.fail("the child process failed: " + line)
			runtime.Goexit()
		}
		return line
	case <-time.After(slow.By(20 * time.Second)):
		c.e.late()
		c.e.fail("the child process said nothing for " + slow.By(20*time.Second).String())
		runtime.Goexit()
		return ""
	}
}

// Tell sends the child a line.
func (c *child) Tell(line string) {
	_, err := io.WriteString(c.in, line+"\n")
	c.e.Must(err)
}

// Kill ends the child as a crash would: without a chance to clean up.
func (c *child) Kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}
