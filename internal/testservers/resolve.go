package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// found is the outcome of one line of the table.
type found struct {
	spec     spec
	address  string // "" when missing, or when there is no server
	version  string
	origin   string    // where it came from, for people
	instance *instance // the local server, nil for anything else
	leave    func(context.Context) error
	missing  error // why there is none
}

type foundList []found

var errMissing = errors.New("missing")

// resolve finds or starts the servers of these names, all when there are none,
// and whatever they need. A server whose programs are missing is no error, but a server
// that does not start is. The caller must leave the list even after an error.
func resolve(ctx context.Context, env environment, names []string) (list foundList, err error) {
	if err := checkNames(append(splitNames(env.get("PARLEY_TEST_REQUIRE")), names...)); err != nil {
		return nil, err
	}
	here := slices.DeleteFunc(slices.Clone(specs), func(s spec) bool { return !wanted(env, names, s) })
	env.fetch(ctx, slices.DeleteFunc(slices.Clone(here), func(s spec) bool { return env.get(s.variable) != "" }))
	for _, s := range here {
		f, err := resolveOne(ctx, env, s, list)
		if err != nil {
			return list, fmt.Errorf("%s: %w", s.name, err)
		}
		list = append(list, f)
		if f.missing != nil {
			env.logf("%s is missing: %v; tests that need it will be skipped", s.name, f.missing)
		}
	}
	return list, nil
}

// wanted says whether a server is among the names, or whether a named server that does
// not come from its variable needs it.
func wanted(env environment, names []string, s spec) bool {
	if len(names) == 0 && !s.onDemand || contains(names, s.name) {
		return true
	}
	return slices.ContainsFunc(specs, func(other spec) bool {
		return other.needs == s.name && contains(names, other.name) && env.get(other.variable) == ""
	})
}

func resolveOne(ctx context.Context, env environment, s spec, before foundList) (found, error) {
	f := found{spec: s}
	if s.engine == nil {
		f.version, f.origin = s.builtin(), "in the test process"
		return f, nil
	}
	if address := env.get(s.variable); address != "" {
		f.address, f.version = address, versionOf(ctx, s, address)
		f.origin = "at " + shown(address) + ", from " + s.variable
		return f, nil
	}
	upstream := ""
	ours := true // whether the upstream is a server of this cache folder
	if s.needs != "" {
		i := slices.IndexFunc(before, func(f found) bool { return f.spec.name == s.needs })
		if before[i].missing != nil {
			f.missing = fmt.Errorf("it stands in front of %s, which is missing", s.needs)
			return f, nil
		}
		upstream, ours = before[i].address, before[i].instance != nil
	}
	if err := s.engine.Find(); err != nil {
		if e := env.installFor(ctx, s.engine); e != nil {
			f.missing = fmt.Errorf("%w (%w)", err, e)
			return f, nil
		}
		if err := s.engine.Find(); err != nil {
			f.missing = err
			return f, nil
		}
	}
	in, err := newInstance(env, s, upstream, ours)
	if err != nil {
		return f, err
	}
	address, started, leave, err := in.use(ctx)
	if errors.Is(err, errors.ErrUnsupported) { // on this system, or in front of this server
		f.missing = err
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.instance, f.address, f.leave = in, address, leave
	f.version = versionOf(ctx, s, address)
	f.origin = "at " + shown(address) + ", already running"
	if started {
		f.origin = "at " + shown(address) + ", started for it"
	}
	return f, nil
}

// leave gives the local servers back in the opposite order.
func (l foundList) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(l) {
		if f.leave != nil {
			errs = append(errs, f.leave(ctx))
		}
	}
	return errors.Join(errs...)
}

// checkRequired returns an error that names the required servers which are missing.
func (l foundList) checkRequired(require string) error {
	var errs []error
	for _, name := range splitNames(require) {
		i := slices.IndexFunc(l, func(f found) bool { return f.spec.name == name })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("%s is required, but left out here", name))
		case l[i].missing != nil:
			errs = append(errs, fmt.Errorf("%s is required, but %w: %w", name, errMissing, l[i].missing))
		}
	}
	return errors.Join(errs...)
}

// variables returns name=value for each server that there is.
func (l foundList) variables() []string {
	var v []string
	for _, f := range l {
		if f.address != "" {
			v = append(v, f.spec.variable+"="+f.address)
		}
	}
	return v
}

func (l foundList) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range l {
		if f.missing != nil {
			fmt.Fprintf(w, "  %s\tmissing\t%v: its tests were skipped\n", f.spec.name, f.missing)
			continue
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", f.spec.name, f.version, f.origin)
	}
	w.Flush()
}

// versionOf is Version for people, who can do with a reason instead.
func versionOf(ctx context.Context, s spec, address string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	version, err := s.engine.Version(ctx, address)
	if err != nil {
		return fmt.Sprintf("version unknown (%v)", err)
	}
	return version
}

// shown is an address without anything secret: a password may stand in its
// user part, among its parameters or, in a list of words, anywhere.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address of your own"
	}
	return u.Host + strings.TrimRight(u.Path, "/")
}
