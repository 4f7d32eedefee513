package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// ownedServer is a server that internal/testservers runs for this run alone. A nil one
// is another process's.
type ownedServer struct {
	tool, label, name string

	clock bool // the server has a clock that can be stepped back
}

// errMissing: the server's programs cannot be had here.
var errMissing = errors.New("the server cannot be had here")

// codeMissing is the exit code with which testservers says so.
const codeMissing = 3

// standsBy says whether another server can take its place.
func (o *ownedServer) standsBy() bool {
	return o != nil && (strings.HasSuffix(o.name, "-pair") || o.galera() || o.switches())
}

// switches says whether another server can take its place while it goes on.
func (o *ownedServer) switches() bool {
	return o != nil && (strings.HasSuffix(o.name, "-group") || strings.HasSuffix(o.name, "-patroni"))
}

func (o *ownedServer) galera() bool { return o != nil && strings.HasPrefix(o.name, "galera") }

// do has testservers do something and returns what it prints.
func (o *ownedServer) do(verb string) (string, error) {
	cmd := exec.Command(o.tool, "own", o.label, verb, o.name)
	if o.clock {
		cmd.Env = append(os.Environ(), "PARLEY_TEST_CLOCK=1")
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == codeMissing {
		err = errMissing
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", verb, o.name, err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}

// begin starts it and returns its address, of a cluster that of the first node.
func (o *ownedServer) begin() (string, error) {
	line, err := o.do("start")
	if err != nil {
		return "", err
	}
	_, address, _ := strings.Cut(line, "=")
	address, _, _ = strings.Cut(strings.Trim(address, "'"), ",")
	return address, nil
}

// killServer kills the server, and starts it a moment later.
func (s *suite) killServer(context.Context) error {
	if _, err := s.own.do("kill"); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	_, err := s.own.do("revive")
	return err
}

// restartServer has it end as an operator does.
func (s *suite) restartServer(context.Context) error {
	_, err := s.own.do("restart")
	return err
}

// stepClock steps the server's clock back by two seconds.
func (s *suite) stepClock(context.Context) error {
	_, err := s.own.do("back")
	return err
}

// failOver kills the primary, and has the proxy lead to the next one.
func (s *suite) failOver(context.Context) error {
	if err := s.move("failover"); err != nil {
		return err
	}
	s.proxy.Cut() // no killed server's connection is left, but one to a machine that is cut off would be
	_, err := s.own.do("repair")
	return err
}

// switchOver makes another server the primary. The old one goes on, and so do the connections to it, which refuse
// to write.
func (s *suite) switchOver(context.Context) error {
	if err := s.move("switchover"); err != nil {
		return err
	}
	s.side.SetMaxIdleConns(0) // these are no store's, which would notice it
	s.side.SetMaxIdleConns(sideConns)
	_, err := s.own.do("repair")
	return err
}

// move has another server take the primary's place, and the proxy lead to it.
func (s *suite) move(verb string) error {
	address, err := s.own.do(verb)
	if err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	s.proxy.Lead(u.Host)
	return nil
}

// answers says whether anything listens where the server should.
func (s *suite) answers() bool {
	conn, err := net.DialTimeout("tcp", s.proxy.Leads(), time.Second)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// A setting is switched on for new sessions, and off again.
type setting struct{ on, off string }

// settings are the timeouts of statements, of idle transactions or sessions, and of waits for
// locks. Each is short enough to be met by chance.
var settings = map[string][3]setting{
	"postgres": {
		{"ALTER ROLE CURRENT_USER SET statement_timeout = '15ms'", "ALTER ROLE CURRENT_USER RESET statement_timeout"},
		{"ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '3ms'",
			"ALTER ROLE CURRENT_USER RESET idle_in_transaction_session_timeout"},
		{"ALTER ROLE CURRENT_USER SET lock_timeout = '2ms'", "ALTER ROLE CURRENT_USER RESET lock_timeout"},
	},
	"mysql": {
		{"SET GLOBAL max_execution_time = 5", "SET GLOBAL max_execution_time = DEFAULT"},
		{"SET GLOBAL wait_timeout = 1", "SET GLOBAL wait_timeout = DEFAULT"},
		{"SET GLOBAL innodb_lock_wait_timeout = 1", "SET GLOBAL innodb_lock_wait_timeout = DEFAULT"},
	},
	"mariadb": {
		{"SET GLOBAL max_statement_time = 0.015", "SET GLOBAL max_statement_time = DEFAULT"},
		{"SET GLOBAL idle_transaction_timeout = 1, GLOBAL wait_timeout = 1",
			"SET GLOBAL idle_transaction_timeout = DEFAULT, GLOBAL wait_timeout = DEFAULT"},
		{"SET GLOBAL innodb_lock_wait_timeout = 0", "SET GLOBAL innodb_lock_wait_timeout = DEFAULT"},
	},
}

// hasTimeouts leaves out servers with a standby. A statement that waits for the standby counts as
// committed when its time is over, which no program can see.
func hasTimeouts(s *suite) bool {
	return s.proxy != nil && !s.own.standsBy() && settings[s.kind()] != [3]setting{}
}

// timeout has sessions with a timeout for a while.
func timeout(which int) func(*suite, context.Context) error {
	return func(s *suite, ctx context.Context) error {
		set := settings[s.kind()][which]
		if err := s.exec(ctx, set.on); err != nil {
			return err
		}
		s.proxy.Cut()
		time.Sleep(1500 * time.Millisecond)
		err := s.exec(ctx, set.off)
		s.proxy.Cut()
		return err
	}
}

// exec runs a statement, by a connection that the timeouts do not matter to.
func (s *suite) exec(ctx context.Context, text string) error {
	return s.retry(ctx, func(ctx context.Context, tx *parley.Tx) error {
		_, err := tx.SQL().ExecContext(ctx, text)
		return err
	})
}
