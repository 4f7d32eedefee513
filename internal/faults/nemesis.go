package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// affliction is a kind of fault. It is over when inject returns.
type affliction struct {
	name   string
	can    func(s *suite) bool // nil: always
	inject func(s *suite, ctx context.Context) error
}

// afflictions are all kinds, in the order in which they come.
var afflictions = []affliction{
	{"kill", nil, (*suite).killProgram},
	{"cut", behindProxy, func(s *suite, ctx context.Context) error { s.proxy.Cut(); return nil }},
	{"server killed", ownServer, (*suite).killServer},
	{"statement timeout", hasTimeouts, timeout(0)},
	{"blackhole", behindProxy, (*suite).blackhole},
	{"catalog", nil, (*suite).changeCatalog},
	{"queue off", nil, (*suite).switchOff},
	{"idle timeout", hasTimeouts, timeout(1)},
	{"stop", nil, (*suite).stopProgram},
	{"disk full", func(s *suite) bool { return s.disk != nil }, (*suite).fillDisk},
	{"terminate", mayKill, (*suite).terminate},
	{"failover", func(s *suite) bool { return s.own.standsBy() }, (*suite).failOver},
	{"switchover", func(s *suite) bool { return s.own.switches() }, (*suite).switchOver},
	{"lock timeout", hasTimeouts, timeout(2)},
	{"migration", nil, (*suite).migrate},
	{"clock", func(s *suite) bool { return s.own != nil && s.own.clock }, (*suite).stepClock},
	{"lag", behindProxy, (*suite).lag},
	{"interrupt", hasTimeouts, (*suite).interrupt},
	{"cancelling proxy", hasInterrupts, (*suite).interruptByProxy},
	{"server restarted", ownServer, (*suite).restartServer},
}

func behindProxy(s *suite) bool   { return s.proxy != nil }
func hasInterrupts(s *suite) bool { return mayKill(s) && s.engine() != "sqlserver" } // it ends sessions only
func ownServer(s *suite) bool     { return s.own != nil && !s.own.standsBy() }

// mayKill leaves out Galera, on which MariaDB has crashed at KILL and KILL QUERY (signal 11 in wsrep_kill_thd).
func mayKill(s *suite) bool { return behindProxy(s) && !s.own.galera() }

// possible are the kinds that this run can inject.
func (s *suite) possible() (list []affliction) {
	for _, a := range afflictions {
		wanted := s.only == "" || slices.Contains(strings.Split(s.only, ","), a.name)
		if wanted && (a.can == nil || a.can(s)) {
			list = append(list, a)
		}
	}
	return list
}

// inject injects faults until there were enough of them, and enough operations, or
// the time is over. Faults wait for operations, so that both come to an end together.
func (s *suite) inject(ctx context.Context) error {
	list := s.possible()
	for n, end := 0, time.Now().Add(s.limit); ctx.Err() == nil && time.Now().Before(end); {
		done, err := s.operationsSoFar()
		if err != nil || n >= s.faults && done >= s.operations {
			return err
		}
		time.Sleep(time.Duration(200+random.IntN(600)) * time.Millisecond)
		if n >= s.faults || n > 0 && done*s.faults < n*s.operations {
			continue
		}
		a := list[n%len(list)]
		n++
		s.rec.write(event{Kind: fault, Name: a.name})
		s.calm.faults.Add(1)
		err = a.inject(s, ctx)
		s.calm.since.Store(time.Now().UnixNano())
		s.calm.faults.Add(-1)
		s.rec.write(event{Kind: healed, Name: a.name})
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return ctx.Err()
}

// operationsSoFar are those in the histories, as the checker counts them.
func (s *suite) operationsSoFar() (int, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "*.history"))
	if err != nil {
		return 0, err
	}
	return s.tally.update(paths)
}

// killProgram kills a program and starts another one in its place.
func (s *suite) killProgram(context.Context) error {
	i := random.IntN(len(s.running))
	s.running[i].Process.Kill()
	s.running[i].Wait()
	return s.start(i)
}

// stopProgram keeps a program from running for longer than its leases last.
func (s *suite) stopProgram(context.Context) error {
	p := s.running[random.IntN(len(s.running))].Process
	if err := p.Signal(pauseSignal); err != nil {
		return err
	}
	time.Sleep(lease * 3 / 2)
	return p.Signal(resumeSignal)
}

// blackhole has answers vanish, and closes the connections then: what vanished will
// not come again.
func (s *suite) blackhole(context.Context) error {
	s.proxy.Set(true, 0)
	time.Sleep(500 * time.Millisecond)
	s.proxy.Cut()
	s.proxy.Set(false, 0)
	return nil
}

func (s *suite) lag(context.Context) error {
	s.proxy.Set(false, 20*time.Millisecond)
	time.Sleep(time.Second)
	s.proxy.Set(false, 0)
	return nil
}

// terminate has the server end the programs' connections.
func (s *suite) terminate(ctx context.Context) error {
	return s.each(ctx, "pg_terminate_backend", "KILL", false)
}

// interrupt has the server end statements, again and again for a moment, wherever they are. Their
// connections and transactions stay.
func (s *suite) interrupt(ctx context.Context) error {
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		if err := s.each(ctx, "pg_cancel_backend", "KILL QUERY", true); err != nil {
			return err
		}
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
	}
	return nil
}

// interruptByProxy has the server end statements that programs have just sent, as a cancelling proxy does.
// It reaches short statements as well, which a look at the server hardly ever sees.
func (s *suite) interruptByProxy(ctx context.Context) error {
	kill := "SELECT pg_cancel_backend(%d)"
	if s.engine() == "mysql" {
		kill = "KILL QUERY %d"
	}
	ids := make(chan int64)
	s.proxy.Watch(func(id int64) {
		if random.IntN(20) > 0 {
			return
		}
		select {
		case ids <- id:
		default:
		}
	})
	defer s.proxy.Watch(nil)
	return s.retry(ctx, func(ctx context.Context, tx *parley.Tx) error {
		for end := time.After(1500 * time.Millisecond); ; {
			select {
			case id := <-ids:
				time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond) // it is on its way
				tx.SQL().ExecContext(ctx, fmt.Sprintf(kill, id))               // it may be gone already
			case <-end:
				return nil
			}
		}
	})
}

// each has the server do something to the programs' connections, or those that are at a statement.
func (s *suite) each(ctx context.Context, postgres, mysql string, atWork bool) error {
	var list, end, active string
	switch s.engine() {
	case "postgres":
		list, end = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'faults-%'", "SELECT "+postgres+"(%d)"
		active = " AND state = 'active'"
	case "mysql":
		list, end = "SELECT id FROM information_schema.processlist WHERE user LIKE 'faults-%'", mysql+" %d"
		active = " AND command = 'Query'"
	case "sqlserver":
		list, end = "SELECT session_id FROM sys.dm_exec_sessions WHERE program_name LIKE 'faults-%'", mysql+" %d"
	}
	if atWork {
		list += active
	}
	return s.again(ctx, func(ctx context.Context) error {
		ids, err := numbers(ctx, s.side, list)
		for _, id := range ids {
			s.side.ExecContext(ctx, fmt.Sprintf(end, id)) // it may be gone already
		}
		return err
	})
}

// numbers reads a column.
func numbers(ctx context.Context, db *sql.DB, query string) (list []int64, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// retry does something in a transaction. It tries again if an earlier fault had broken the
// connection, or another transaction was in its way.
func (s *suite) retry(ctx context.Context, do func(context.Context, *parley.Tx) error) error {
	return s.again(ctx, func(ctx context.Context) error {
		return s.b.InTx(ctx, func(tx *parley.Tx) error { return do(ctx, tx) })
	})
}

// again does something until it succeeds, for a minute and a half.
func (s *suite) again(ctx context.Context, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if err = do(ctx); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
