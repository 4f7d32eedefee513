package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mssql"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/internal/proxy"
	"github.com/parleymq/parley/internal/slow"
)

const childVariable = "PARLEY_FAULTS_PROGRAM"

// stall is how long nothing may be settled while messages wait. A broken connection
// is noticed, and a lease runs out, well before.
var stall = slow.By(15 * time.Second)

type options struct {
	db                           string
	server, tool                 string // instead of db: a server of the run's own, which tool runs
	diskSize                     string // of a file system for it, or ""
	only                         string // the kinds of faults, with commas between, or ""
	clock                        bool   // the server has a clock that steps back
	operations, faults, programs int
	limit, drain                 time.Duration // of the faults, of the time after them
	slack                        time.Duration // by which clocks of programs may differ
	seed                         uint64
	slices, anew                 string // the record to which the run is added, or ""
	mariadb                      bool   // found out when the run connects
}

func (o options) engine() string { scheme, _, _ := strings.Cut(o.db, ":"); return scheme }

// dialect tells MariaDB and MySQL apart.
func (o options) dialect() string {
	if o.mariadb {
		return "mariadb"
	}
	return o.engine()
}

// kind is the server as --server says.
func (o options) kind() string {
	if o.server == "" {
		return o.dialect()
	}
	kind, _, _ := strings.Cut(o.server, "-")
	return kind
}

// suite is a run.
type suite struct {
	options
	dir      string
	b        *parley.Broker
	side     *sql.DB
	own      *ownedServer // nil if nothing else is known of the server than its address
	disk     *disk        // nil: it cannot be filled
	proxy    *proxy.Proxy // nil for SQLite
	through  string       // the database's name through the proxy
	rec      *recorder
	running  []*exec.Cmd
	started  int  // programs
	changes  int  // of the catalog
	migrated bool // to the next schema
	tally    tally
	calm     calm
}

// run runs programs under faults and judges their histories.
func run(ctx context.Context, o options) (v *violations, err error) {
	s := &suite{options: o}
	sown{o.seed, 0}.use()
	if s.dir, err = os.MkdirTemp("", "parley-faults-"); err != nil {
		return nil, err
	}
	defer func() {
		failed := err != nil && !errors.Is(err, errMissing) || v != nil && v.bad()
		err = errors.Join(err, s.leave(failed))
		if failed {
			fmt.Fprintln(os.Stderr, "faults: the histories are in", s.dir)
			return
		}
		os.RemoveAll(s.dir)
	}()
	if err := s.serve(); err != nil {
		return nil, err
	}
	if err := s.setup(ctx); err != nil {
		return nil, err
	}
	defer func() { s.b.Close() }()
	defer s.side.Close()
	for i := range o.programs {
		s.running = append(s.running, nil)
		if err := s.start(i); err != nil {
			return nil, err
		}
	}
	defer s.end()
	looks := s.sample(ctx)
	if err := s.inject(ctx); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.stopFile(), nil, 0o600); err != nil {
		return nil, err
	}
	if err := errors.Join(s.unshare(ctx), s.unschedule(ctx)); err != nil {
		return nil, err
	}
	if err := s.reopen(ctx); err != nil {
		return nil, err
	}
	left, err := s.leftovers(ctx)
	if err != nil {
		return nil, err
	}
	looked := looks()
	s.end()
	paths, err := filepath.Glob(filepath.Join(s.dir, "*.history"))
	if err != nil {
		return nil, err
	}
	history, err := readHistory(paths)
	if err != nil {
		return nil, err
	}
	rows, err := readRows(ctx, s.b)
	if err != nil {
		return nil, err
	}
	v = check(history, rows, stall, s.slack)
	for _, text := range left {
		v.problem(&v.Stuck, "%s", text)
	}
	for what, n := range looked {
		v.Load["looks for "+what] = n
	}
	if err := s.races(v); err != nil {
		return nil, err
	}
	if s.slices == "" {
		return v, nil
	}
	info, err := s.b.Info(ctx)
	return v, errors.Join(err, o.record(v, info.Version))
}

func (s *suite) stopFile() string { return filepath.Join(s.dir, "stop") }

// serve starts the run's own server, if it shall have one, and the proxy before any.
func (s *suite) serve() (err error) {
	s.through = s.db
	folder := filepath.Join(s.dir, "db")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if s.server != "" && s.server != "sqlite" {
		s.own = &ownedServer{s.tool, fmt.Sprint("faults-", os.Getpid(), "-", s.server), s.server, s.clock}
		if folder, err = s.own.do("folder"); err != nil {
			return err
		}
	}
	if s.diskSize != "" {
		if s.disk, err = mount(folder, s.diskSize); err != nil {
			fmt.Fprintln(os.Stderr, "faults: no full disk:", err)
		}
	}
	switch {
	case s.own != nil:
		if s.db, err = s.own.begin(); err != nil {
			return err
		}
	case s.server == "sqlite":
		s.db = "sqlite:" + filepath.Join(folder, "faults.db")
		s.through = s.db
		return nil
	case s.engine() == "sqlite":
		return nil
	}
	u, err := url.Parse(s.db)
	if err != nil {
		return err
	}
	if s.proxy, err = proxy.New(u.Host); err != nil {
		return err
	}
	u.Host = s.proxy.Addr().String()
	s.through = u.String()
	return nil
}

// leave stops what the run has started, and keeps what its server has printed if the run
// failed.
func (s *suite) leave(failed bool) (err error) {
	if s.proxy != nil {
		s.proxy.Close()
		s.proxy.Cut()
	}
	folder := ""
	if s.own != nil {
		folder, err = s.own.do("folder")
		if err == nil && failed {
			err = s.keepOutput(folder)
		}
		_, e := s.own.do("stop")
		err = errors.Join(err, e)
	}
	err = errors.Join(err, s.disk.unmount())
	if folder != "" {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// keepOutput copies what the server of a folder has printed.
func (s *suite) keepOutput(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		output := filepath.Ext(path) == ".out" || filepath.Base(path) == "log" // the latter is PostgreSQL's
		if err != nil || d.IsDir() || !output {
			return nil // the server may remove files meanwhile
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.dir, strings.ReplaceAll(name, string(filepath.Separator), "-")), text, 0o600)
	})
}

// setup makes the tables.
func (s *suite) setup(ctx context.Context) (err error) {
	if s.b, err = parley.Open(ctx, s.through, nil); err != nil {
		return err
	}
	if err := s.b.Migrate(ctx); err != nil {
		return err
	}
	if err := define(ctx, s.b, s.engine()); err != nil {
		return err
	}
	if s.rec, err = newRecorder(filepath.Join(s.dir, "nemesis.history")); err != nil {
		return err
	}
	if s.side, err = besides(s.through); err != nil {
		return err
	}
	s.side.SetMaxOpenConns(sideConns)
	s.side.SetMaxIdleConns(sideConns)
	if s.engine() == "mysql" {
		if err := s.side.QueryRowContext(ctx, "SELECT version() LIKE '%MariaDB%'").Scan(&s.mariadb); err != nil {
			return err
		}
	}
	if err := s.grant(ctx); err != nil {
		return err
	}
	return errors.Join(s.share(ctx), s.schedule(ctx))
}

// sideConns are connections of the suite that belong to no store.
const sideConns = 4

// reopen opens the store again, on the server that is the primary in the end. What a store only reads it could read
// from an old one.
func (s *suite) reopen(ctx context.Context) error {
	s.b.Close()
	return s.again(ctx, func(ctx context.Context) (err error) {
		b, err := parley.Open(ctx, s.through, nil)
		if err == nil {
			s.b = b
		}
		return err
	})
}

// calm is a time without faults.
type calm struct {
	faults atomic.Int32
	since  atomic.Int64 // Unix nanoseconds
}

// noticed is how long a server may take to notice that a program was killed.
const noticed = 500 * time.Millisecond

func (c *calm) is() bool {
	return c.faults.Load() == 0 && time.Since(time.Unix(0, c.since.Load())) > noticed
}

// leftovers waits until nothing is left, and returns what is left all the same.
func (s *suite) leftovers(ctx context.Context) (left []string, err error) {
	if left, err = drain(ctx, s.b, s.drain); err != nil || len(left) > 0 {
		return left, err
	}
	err = s.again(ctx, func(ctx context.Context) (err error) { left, err = outlived(ctx, s.b); return err })
	return left, err
}

// sample has a sampler look until the function that it returns is called, which says how often it has.
func (s *suite) sample(ctx context.Context) (end func() map[string]int) {
	kind := s.dialect()
	if s.own.galera() { // which has crashed at reading information_schema.innodb_lock_waits
		kind = "galera"
	}
	looker := &sampler{db: s.side, kind: kind, rec: s.rec, calm: s.calm.is, looks: make(map[string]int)}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { looker.run(ctx) })
	return func() map[string]int { cancel(); done.Wait(); return looker.looks }
}

// races adds what the race detector has found in programs, if they were built with it.
func (s *suite) races(v *violations) error {
	paths, err := filepath.Glob(filepath.Join(s.dir, raceLog+".*"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		v.problem(&v.Broken, "%s", text)
	}
	return err
}

// raceLog begins the names of the files into which the race detector writes.
const raceLog = "races"

// start starts a program in the place of a killed program.
func (s *suite) start(i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.started++
	cmd := exec.Command(self, s.through, filepath.Join(s.dir, fmt.Sprint(s.started, ".history")), s.stopFile())
	cmd.Env = append(os.Environ(), childVariable+"="+sown{s.seed, uint64(s.started)}.String(),
		"GORACE=log_path="+filepath.Join(s.dir, raceLog))
	cmd.Stderr = os.Stderr
	s.running[i] = cmd
	return cmd.Start()
}

// end kills the programs.
func (s *suite) end() {
	for _, cmd := range s.running {
		cmd.Process.Kill()
		cmd.Wait()
	}
	s.running = nil
}
