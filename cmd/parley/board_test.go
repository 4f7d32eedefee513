package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

// TestMain is the command itself in a child process, which a test gives a terminal.
func TestMain(m *testing.M) {
	if os.Getenv("PARLEY_TEST_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

// screenOf is a terminal on which the command runs.
type screenOf struct {
	t   *testing.T
	tty *os.File

	mu   sync.Mutex
	text string // that was written since the last look
}

func onTerminal(t *testing.T, args ...string) *screenOf {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("it has no pseudo-terminals")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "PARLEY_TEST_COMMAND=1", "TERM=xterm-256color")
	s := &screenOf{t: t}
	if s.tty, err = pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 140}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := s.tty.Read(buffer)
			s.mu.Lock()
			s.text += string(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				ended <- cmd.Wait()
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		s.tty.Close()
	})
	return s
}

// types types keys and waits until the screen has all texts.
func (s *screenOf) types(keys string, want ...string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
	s.shows(want...)
}

// shows waits until the screen has all texts. A program writes what has changed only, so it is
// made to write the whole screen, by another size.
func (s *screenOf) shows(want ...string) {
	s.t.Helper()
	text := ""
	for end, n := time.Now().Add(20*time.Second), 0; time.Now().Before(end); n++ {
		s.mu.Lock()
		s.text = ""
		s.mu.Unlock()
		if err := pty.Setsize(s.tty, &pty.Winsize{Rows: 24, Cols: uint16(140 + n%2)}); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		s.mu.Lock()
		text = ansi.Strip(s.text)
		s.mu.Unlock()
		if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) }) {
			return
		}
	}
	s.t.Fatalf("the screen lacks one of %q:\n%s", want, text)
}

// writes waits until the command has written all texts.
func (s *screenOf) writes(want ...string) {
	s.t.Helper()
	slow.Eventually(s.t, 20*time.Second, fmt.Sprintf("the command writes %q", want), func() (any, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.text, !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(s.text, w) })
	})
}

// TestTopOnTerminal drives the interactive top as a person does.
func TestTopOnTerminal(t *testing.T) {
	db, b := ward(t)
	group := onlyParked(t, b)
	s := onTerminal(t, "top", "--db", db, "--every", "50ms")
	s.shows("parley top", "QUEUE", "work")
	s.types("/work", "filter: work")
	s.types("\r", "1 of 3")
	s.types("j")
	s.types("\r", "parley top › work", "GROUP", "parked", "no such customer", "deferred")
	s.types("/no such", "filter: no such")
	s.types("\r", "1 of 4")
	s.types("j")
	s.types("r", "is ready again")
	slow.Eventually(t, 20*time.Second, fmt.Sprintf("group %s is not parked any more", group), func() (any, bool) {
		list, err := b.Admin().Parked(t.Context(), "work", parley.Place{}, 10)
		return err, err == nil && len(list) == 0
	})
	s.types("q")
}

// TestBoard: keys do what the help says, without a terminal.
func TestBoard(t *testing.T) {
	_, b := ward(t)
	m := newBoard(t.Context(), &watch{b: b}, time.Hour)
	do := func(cmd tea.Cmd) {
		t.Helper()
		for cmd != nil {
			msg := cmd()
			_, cmd = m.Update(msg)
			if _, ok := msg.(seen); ok {
				return // what follows is the next look
			}
		}
	}
	press := func(keys ...string) {
		t.Helper()
		for _, k := range keys {
			do(m.pressed(k))
		}
	}
	shows := func(want ...string) {
		t.Helper()
		text := ansi.Strip(m.text())
		for _, w := range want {
			if !regexp.MustCompile(w).MatchString(text) {
				t.Errorf("the board lacks %q:\n%s", w, text)
			}
		}
		for l := range strings.Lines(text) {
			if n := ansi.StringWidth(strings.TrimSuffix(l, "\n")); n > m.width {
				t.Errorf("a line is %d wide, the terminal %d:\n%s", n, m.width, l)
			}
		}
	}
	m.width = 140
	do(m.Init())
	shows("empty +0", "off +0", "work +")
	press("s", "S") // by name, the last one first
	if list := m.visible(); m.rows[list[0]][0] != "work" {
		t.Errorf("sorted by name, the last first, the first is %s", m.rows[list[0]][0])
	}
	press("down", "enter")
	shows("parley top › work", "parked", "deferred", "4 of 4")
	m.filter = "customer"
	shows("1 of 4 with")
	press("down")
	group := m.chosen
	press("enter")
	shows(group, "MESSAGE", "bad", "body", "no such cust", "2 of 2")
	press("p")
	shows("")
	press("esc", "esc")
	shows("parley top\n")
	press("p")
	shows("choose a group first")
	m.Update(tea.WindowSizeMsg{Width: 40, Height: 5})
	shows("parley top")
	m.rows[0][0] = parley.NewID().String()
	shows("") // ids stay whole, but no line is wider
}
