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

// serverPID is the server's first process, 0 for SQLite. The server is on this machine.
func serverPID(ctx context.Context, engine, dsn string) (int, error) {
	driver, query := "mysql", "SELECT @@datadir, @@pid_file"
	switch engine {
	case "sqlite":
		return 0, nil
	case "postgres":
		driver, query = "postgres", "SELECT current_setting('data_directory'), 'postmaster.pid'"
	default:
		dsn = driverDSN(dsn, true)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	var dir, file string
	if err := db.QueryRowContext(ctx, query).Scan(&dir, &file); err != nil {
		return 0, err
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("the server's processor time: %w: %w", errUnsupported, err)
	}
	pid, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(strings.TrimSpace(pid))
}

// clockTick is the unit of /proc/pid/stat on all of Linux's usual machines.
const clockTick = 10 * time.Millisecond

// processorTime is how long this process has run, and a server with its children, those that have ended included.
func processorTime(server int) (sum time.Duration, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("there is no /proc: %w", errUnsupported)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, and counts as a child of the server then
		}
		// The name, in parentheses, may have anything in it. The parent is the second field behind it, and utime,
		// stime, cutime and cstime are the 12th to 15th.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(fields[1])
		times := fields[11:13]
		switch {
		case server > 0 && pid == server:
			times = fields[11:15]
		case pid != os.Getpid() && (server == 0 || parent != server):
			continue
		}
		for _, f := range times {
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * clockTick
		}
	}
	return sum, nil
}
