package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// postgresPair runs two servers of PostgreSQL, a primary and a standby without which it
// confirms no commit. The address is that of the primary.
type postgresPair struct{ postgres postgres }

func (e postgresPair) version() release { return e.postgres.release }

func (e postgresPair) Packages() []string { return e.postgres.Packages() }

func (e postgresPair) Find() error { return e.postgres.Find() }

func (e postgresPair) Version(ctx context.Context, address string) (string, error) {
	version, err := e.postgres.Version(ctx, address)
	return version + " with a standby", err
}

// halves are the primary and the standby, which change places.
func halves(in *instance) (primary, standby *instance) {
	names := []string{"a", "b"}
	if in.read("primary") == "b" {
		names = []string{"b", "a"}
	}
	var list [2]*instance
	for i, name := range names {
		half := *in
		half.dir = filepath.Join(in.dir, name)
		list[i] = &half
	}
	return list[0], list[1]
}

// empty makes the folders of a half again.
func (in *instance) empty() error {
	if err := os.RemoveAll(in.home()); err != nil {
		return err
	}
	if err := os.MkdirAll(in.dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(in.dir, 0o755); err != nil {
		return err
	}
	return in.folder(in.home())
}

func (e postgresPair) Start(ctx context.Context, in *instance) (string, error) {
	if err := in.write("primary", "a"); err != nil {
		return "", err
	}
	primary, standby := halves(in)
	if err := primary.empty(); err != nil {
		return "", err
	}
	address, err := e.postgres.Start(ctx, primary)
	if err != nil {
		return "", err
	}
	return address, e.follow(ctx, primary, standby, address)
}

// follow makes a standby of the primary, and has commits wait for it.
func (e postgresPair) follow(ctx context.Context, primary, standby *instance, address string) error {
	bin, err := e.postgres.programs()
	if err != nil {
		return err
	}
	if err := standby.empty(); err != nil {
		return err
	}
	port, err := standby.port(ctx, "sql")
	if err != nil {
		return err
	}
	err = standby.program(ctx, filepath.Join(bin, "pg_basebackup"), "-h", "127.0.0.1", "-p", primary.read("port-sql"),
		"-U", "postgres", "-D", filepath.Join(standby.home(), "data"), "-R", "-X", "stream", "-C", "-S", "standby", "-c", "fast", "--no-sync")
	if err != nil {
		return err
	}
	if err := standby.configure(fmt.Sprintf("port = %d\ncluster_name = 'standby_%d'\nsynchronous_standby_names = ''\n", port, port)); err != nil {
		return err
	}
	if err := e.postgres.Revive(ctx, standby); err != nil {
		return err
	}
	if err := primary.configure("synchronous_standby_names = '*'\n"); err != nil {
		return err
	}
	if err := e.postgres.control(ctx, primary, "reload"); err != nil {
		return err
	}
	state := ""
	if !gone(ctx, 30*time.Second, func() bool {
		state, err = queryRow(ctx, address, "SELECT string_agg(sync_state, ',') FROM pg_stat_replication")
		return err != nil || state != "sync"
	}) {
		return errors.Join(err, fmt.Errorf("the standby does not follow: %q", state))
	}
	return nil
}

// Failover implements successor.
func (e postgresPair) Failover(ctx context.Context, in *instance) (string, error) {
	lost, next := halves(in)
	if err := e.postgres.Kill(ctx, lost); err != nil {
		return "", err
	}
	if err := e.postgres.control(ctx, next, "promote"); err != nil {
		return "", err
	}
	if err := in.write("primary", filepath.Base(next.dir)); err != nil {
		return "", err
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", next.read("port-sql")), nil
}

// Repair implements successor.
func (e postgresPair) Repair(ctx context.Context, in *instance) error {
	primary, standby := halves(in)
	return e.follow(ctx, primary, standby, in.read("address"))
}

func (e postgresPair) Running(in *instance) bool {
	a, b := halves(in)
	return e.postgres.Running(a) || e.postgres.Running(b)
}

func (e postgresPair) Stop(ctx context.Context, in *instance) error {
	a, b := halves(in)
	return errors.Join(e.postgres.Stop(ctx, a), e.postgres.Stop(ctx, b))
}
