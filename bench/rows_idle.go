package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idling measures the cost of a worker whose queue has been empty for some time. The cost is the
// additional processor time of its process and of the server, in percent of a core. It needs a server
// on the same machine, and a system that has /proc.
func idling(ctx context.Context, m *measurement) (sample, error) {
	const settle, window = 40 * time.Second, 20 * time.Second
	server, err := serverPID(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	used := func() (time.Duration, error) {
		before, err := processorTime(os.Getpid(), server)
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		after, err := processorTime(os.Getpid(), server)
		return after - before, err
	}
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	alone, err := used()
	if err != nil {
		return sample{}, err
	}
	handled := make(chan struct{}, 1)
	stop, err := q.work(ctx, job{readers: 10, handled: func([]byte) { handled <- struct{}{} }})
	if err != nil {
		return sample{}, err
	}
	defer stop()
	if err := q.send(ctx, body(0)); err != nil {
		return sample{}, err
	}
	<-handled
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return sample{}, ctx.Err()
	}
	waiting, err := used()
	// Less than what the clock can tell is that.
	return sample{value: 100 * max(waiting-alone, clockTick).Seconds() / window.Seconds()}, err
}

// serverPID is the server's process.
func serverPID(ctx context.Context, dsn string) (int, error) {
	db, err := sql.Open("mysql", driverDSN(dsn, true))
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var dir, file string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir, @@pid_file").Scan(&dir, &file); err != nil {
		return 0, err
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("the server's processor time: %w: %w", errUnsupported, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// clockTick is the unit of /proc/pid/stat on all of Linux's usual machines.
const clockTick = 10 * time.Millisecond

// processorTime is how long processes have run.
func processorTime(pids ...int) (sum time.Duration, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errUnsupported, err)
		}
		// The name, in parentheses, may have anything in it; utime and stime are the 12th and 13th behind it.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		for _, f := range fields[11:13] {
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * clockTick
		}
	}
	return sum, nil
}
