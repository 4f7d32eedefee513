package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

const ownUsage = `a server of one user's own: start, kill, revive, restart,
                                                    back (its clock), failover, switchover, repair, folder, stop`

// codeMissing is the exit code when a server cannot be had here.
const codeMissing = 3

// reviver is implemented by engines whose server comes back with its data.
type reviver interface {
	engine

	// Kill ends it without warning.
	Kill(ctx context.Context, in *instance) error

	// Quit ends it as an operator does who cares for the data.
	Quit(ctx context.Context, in *instance) error

	// Revive starts it on the data that are there, at the same address.
	Revive(ctx context.Context, in *instance) error
}

// successor is implemented by engines with a standby.
type successor interface {
	// Failover kills the server in charge, puts its standby in its place, and returns
	// the new address.
	Failover(ctx context.Context, in *instance) (string, error)

	// Repair makes a standby of the killed server, if there is one, and waits until another failover can come.
	Repair(ctx context.Context, in *instance) error
}

// switcher is implemented by engines whose servers can change places while all of them run.
type switcher interface {
	// Switchover makes another server the primary, and returns its address. The old primary goes on, and refuses to
	// write.
	Switchover(ctx context.Context, in *instance) (string, error)
}

// ownCommand does something with the server of a name that belongs to a label.
func ownCommand(ctx context.Context, env environment, args []string, stdout io.Writer) (code int, err error) {
	if len(args) != 3 {
		fmt.Fprint(env.log, usage)
		return 2, nil
	}
	label, verb, name := args[0], args[1], args[2]
	env = env.withoutAddresses()
	env.own = "~" + label
	if err := checkNames([]string{name}); err != nil {
		return 2, err
	}
	var in *instance
	for _, s := range specs {
		if s.name == name && s.engine != nil {
			in, err = newInstance(env, s, "", true)
		}
	}
	if in == nil || err != nil {
		return 1, errors.Join(err, fmt.Errorf("no server %s", name))
	}
	if verb == "start" {
		if env.get("PARLEY_TEST_CLOCK") == "1" {
			err = in.haveClock(ctx, env)
		}
		if err == nil {
			err = startCommand(ctx, env, []string{name}, stdout)
		}
		if errors.Is(err, errMissing) {
			code = codeMissing
		}
		return code, err
	}
	if verb == "folder" {
		fmt.Fprintln(stdout, in.dir)
		return 0, nil
	}
	setup, err := lock(ctx, in.file("setup.lock"))
	if err != nil {
		return 1, err
	}
	defer setup.Close()
	return 0, in.own(ctx, verb, stdout)
}

// revive starts the server again. That fails while a killed process still holds its files, or while
// processes that it left behind still run.
func (in *instance) revive(ctx context.Context, r reviver) (err error) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if err = r.Revive(ctx, in); err == nil || sleep(ctx, 200*time.Millisecond) != nil {
			break
		}
		if e := r.Kill(ctx, in); e != nil {
			return errors.Join(err, e)
		}
	}
	return err
}

// own does what a verb says. The caller holds setup.lock.
func (in *instance) own(ctx context.Context, verb string, stdout io.Writer) error {
	r, can := in.spec.engine.(reviver)
	s, pair := in.spec.engine.(successor)
	w, switches := in.spec.engine.(switcher)
	switch {
	case verb == "stop":
		if err := in.spec.engine.Stop(ctx, in); err != nil {
			return err
		}
		// Nothing of it is of use to another run. A file system that is mounted there
		// is its user's.
		err := os.RemoveAll(in.dir)
		if errors.Is(err, syscall.EBUSY) {
			err = nil
		}
		return err
	case verb == "failover" && pair:
		return in.move(ctx, s.Failover, stdout)
	case verb == "switchover" && switches:
		return in.move(ctx, w.Switchover, stdout)
	case verb == "repair" && pair:
		return s.Repair(ctx, in)
	case verb == "back":
		return in.stepBack()
	case verb == "kill" && can:
		return r.Kill(ctx, in)
	case verb == "revive" && can:
		return in.revive(ctx, r)
	case verb == "restart" && can:
		if err := r.Quit(ctx, in); err != nil {
			return err
		}
		return in.revive(ctx, r)
	}
	return fmt.Errorf("%s cannot %s", in.name(), verb)
}

// move puts another server in charge, and says where it is.
func (in *instance) move(ctx context.Context, f func(context.Context, *instance) (string, error), stdout io.Writer) error {
	address, err := f(ctx, in)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, address)
	return in.write("address", address)
}
