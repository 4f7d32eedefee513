package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/parleymq/parley"
)

// inject injects faults until there were enough of them, and enough operations, or
// the time is over.
func (s *suite) inject(ctx context.Context) error {
	names := []string{"kill", "stop"}
	if s.proxy != nil {
		names = append(names, "cut", "blackhole", "lag", "terminate")
	}
	for n, end := 0, time.Now().Add(s.limit); time.Now().Before(end) && (n < s.faults || s.operationsSoFar() < s.operations); n++ {
		time.Sleep(time.Duration(200+rand.IntN(800)) * time.Millisecond)
		name := names[n%len(names)]
		s.rec.write(event{Kind: fault, Name: name})
		err := s.fault(ctx, name, rand.IntN(len(s.running)))
		s.rec.write(event{Kind: healed, Name: name})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// operationsSoFar estimates by the size of the histories, whose lines differ little:
// an operation has 160 bytes of them.
func (s *suite) operationsSoFar() int {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*.history"))
	size := int64(0)
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			size += info.Size()
		}
	}
	return int(size / 160)
}

// fault injects one, on a program if it is one of a program's, and ends it.
func (s *suite) fault(ctx context.Context, name string, program int) error {
	p := s.running[program].Process
	switch name {
	case "kill":
		p.Kill()
		s.running[program].Wait()
		return s.start(program)
	case "stop":
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(lease * 3 / 2)
		return p.Signal(syscall.SIGCONT)
	case "cut":
		s.proxy.cut()
	case "blackhole":
		s.proxy.set(true, 0)
		time.Sleep(500 * time.Millisecond)
		s.proxy.cut() // what vanished will not come again
		s.proxy.set(false, 0)
	case "lag":
		s.proxy.set(false, 20*time.Millisecond)
		time.Sleep(time.Second)
		s.proxy.set(false, 0)
	case "terminate":
		return s.terminate(ctx)
	}
	return nil
}

// terminate has the server end the connections of all but this process's.
func (s *suite) terminate(ctx context.Context) error {
	list := "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND application_name = ''"
	end := "SELECT pg_terminate_backend(%d)"
	if s.engine() == "mysql" {
		list = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = DATABASE()"
		end = "KILL %d"
	}
	return s.b.InTx(ctx, func(tx *parley.Tx) error {
		rows, err := tx.SQL().QueryContext(ctx, list)
		if err != nil {
			return err
		}
		var ids []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				rows.Close()
				return err
			}
			ids = append(ids, id)
		}
		rows.Close()
		for _, id := range ids {
			tx.SQL().ExecContext(ctx, fmt.Sprintf(end, id)) // it may be gone already
		}
		return rows.Err()
	})
}
