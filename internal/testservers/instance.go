package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// instance is one server of the cache folder.
type instance struct {
	spec     spec
	dir      string // this program's files about the server
	upstream string // the address of the server that it needs, or ""
	behind   string // a digest of upstream, which may hold a password, to keep in a file
	fast     bool   // do not wait for the disk
	torn     bool   // guard against half written pages: it will be killed while it writes
	path     string // a folder of programs that the server runs, or ""
}

// newInstance returns the instance of a spec, whose server may run or not. In front of a user's
// server it gets a separate folder, so that two users with different servers do not restart each
// other's instance.
func newInstance(env environment, s spec, upstream string, ours bool) (*instance, error) {
	cache, err := cacheFolder(env)
	if err != nil {
		return nil, err
	}
	name, behind := s.name+env.own, fmt.Sprintf("%x", sha256.Sum256([]byte(upstream)))
	if !ours {
		name += "@" + behind[:8]
	}
	in := &instance{spec: s, dir: filepath.Join(cache, name), upstream: upstream, behind: behind,
		fast: env.get("PARLEY_TEST_FAST") == "1" || env.own != "", torn: env.own != ""}
	if err := os.MkdirAll(in.dir, 0o755); err != nil || os.Geteuid() != 0 {
		return in, err
	}
	// Root's umask may have closed them to the server's user.
	return in, errors.Join(os.Chmod(cache, 0o755), os.Chmod(in.dir, 0o755))
}

// instances returns what the cache folder knows, in the order of the table.
func instances(env environment) ([]*instance, error) {
	cache, err := cacheFolder(env)
	if err != nil {
		return nil, err
	}
	var list []*instance
	for _, s := range specs {
		for _, pattern := range []string{s.name, s.name + "@*"} {
			dirs, err := filepath.Glob(filepath.Join(cache, pattern))
			if err != nil {
				return nil, err
			}
			for _, dir := range dirs {
				list = append(list, &instance{spec: s, dir: dir})
			}
		}
	}
	return list, nil
}

func (in *instance) name() string { return filepath.Base(in.dir) }

// home is the server's own folder, which belongs to the user it runs as.
func (in *instance) home() string { return filepath.Join(in.dir, "run") }

// file is a file of this program about the server.
func (in *instance) file(name string) string { return filepath.Join(in.dir, name) }

// use makes sure that the server runs and takes it into use until leave. The
// last user to leave stops the server unless startCommand has kept it, no
// matter which of them started it.
func (in *instance) use(ctx context.Context) (address string, started bool, leave func(context.Context) error, err error) {
	setup, err := lock(ctx, in.file("setup.lock"))
	if err != nil {
		return "", false, nil, err
	}
	defer setup.Close()
	address, started, err = in.up(ctx)
	if err != nil {
		return "", false, nil, err
	}
	use, err := tryLock(in.file("use.lock"), false)
	if err != nil {
		return "", false, nil, err
	}
	return address, started, func(ctx context.Context) error {
		setup, err := lock(ctx, in.file("setup.lock"))
		if err != nil {
			return err
		}
		defer setup.Close()
		use.Close()
		_, err = in.stopUnused(ctx)
		return err
	}, nil
}

// up starts the server unless it runs. The caller holds setup.lock.
func (in *instance) up(ctx context.Context) (address string, started bool, err error) {
	if in.spec.engine.Running(in) {
		address, behind := in.read("address"), in.read("behind")
		if address != "" && behind == in.behind {
			return address, false, nil
		}
		// Its start was cut short, or the server behind it came back elsewhere.
		if err := in.spec.engine.Stop(ctx, in); err != nil {
			return "", false, err
		}
	}
	for attempt := 1; ; attempt++ {
		address, err := in.startOnce(ctx)
		if err == nil {
			return address, true, nil
		}
		if in.spec.engine.Running(in) {
			err = errors.Join(err, in.spec.engine.Stop(context.WithoutCancel(ctx), in))
		}
		// Between the look at a port and the server's bind another may have come.
		if attempt == 3 || ctx.Err() != nil || !in.lostPort() {
			return "", false, err
		}
	}
}

func (in *instance) startOnce(ctx context.Context) (string, error) {
	for _, name := range []string{"address", "keep"} { // left over by a server that died
		if err := os.Remove(in.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	if err := os.RemoveAll(in.home()); err != nil {
		return "", err
	}
	if err := os.Mkdir(in.home(), 0o700); err != nil {
		return "", err
	}
	if err := handOver(in.home()); err != nil {
		return "", err
	}
	// Programs that are cut off half-way leave processes that no file names. So a signal
	// waits until the start is over; each engine bounds its own.
	address, err := in.spec.engine.Start(context.WithoutCancel(ctx), in)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := in.write("behind", in.behind); err != nil {
		return "", err
	}
	return address, in.write("address", address)
}

// stopUnused stops the server if no process uses it and no user asked to keep it.
// The caller holds setup.lock, without which no process can come in.
func (in *instance) stopUnused(ctx context.Context) (stopped bool, err error) {
	if in.read("keep") != "" {
		return false, nil
	}
	alone, err := tryLock(in.file("use.lock"), true)
	if errors.Is(err, errLocked) {
		return false, nil // that one stops it
	}
	if err != nil {
		return false, err
	}
	defer alone.Close()
	if !in.spec.engine.Running(in) {
		return false, nil
	}
	if err := in.spec.engine.Stop(ctx, in); err != nil {
		return false, fmt.Errorf("stop %s: %w", in.name(), err)
	}
	// The logs stay for the user who wonders; the data is worth nothing now, and
	// a configuration in it may hold a password.
	return true, os.RemoveAll(filepath.Join(in.home(), "data"))
}

// keep lets the server outlive those who use it. The caller uses it.
func (in *instance) keep() error { return in.write("keep", "yes") }

// unkeep takes keep back, stops the server if no process uses it, and says what it did.
func (in *instance) unkeep(ctx context.Context) (string, error) {
	setup, err := lock(ctx, in.file("setup.lock"))
	if err != nil {
		return "", err
	}
	defer setup.Close()
	if err := os.Remove(in.file("keep")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	stopped, err := in.stopUnused(ctx)
	switch {
	case err != nil:
		return "", err
	case stopped:
		return "stopped", nil
	case in.spec.engine.Running(in):
		return "is in use and stops when its last user ends", nil
	}
	return "", nil
}

// state describes a running server; without one the address is empty.
func (in *instance) state(ctx context.Context) (state, address string, err error) {
	setup, err := lock(ctx, in.file("setup.lock"))
	if err != nil {
		return "", "", err
	}
	defer setup.Close()
	if !in.spec.engine.Running(in) {
		return "", "", nil
	}
	state = "running, until stop"
	if in.read("keep") == "" {
		state = "running, until its last user ends"
	}
	alone, err := tryLock(in.file("use.lock"), true)
	switch {
	case errors.Is(err, errLocked):
		state += ", in use"
	case err != nil:
		return "", "", err
	default:
		alone.Close()
	}
	return state, in.read("address"), nil
}

// read returns a small file's text, "" when there is none.
func (in *instance) read(name string) string {
	text, err := os.ReadFile(in.file(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// write keeps the file from other users: an address may hold a password.
func (in *instance) write(name, text string) error {
	return os.WriteFile(in.file(name), []byte(text+"\n"), 0o600)
}
