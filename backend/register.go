package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// ContractVersion is a version of this package: of the interfaces and of what they promise.
type ContractVersion int

// Version is the version that this package has. See "Stability" above.
const Version ContractVersion = 1

// ErrContract: the backend was written for another version of this package.
var ErrContract = errors.New("the versions of the backend and of Parley do not match")

// Opener makes a backend from a data source name, which includes the scheme.
type Opener func(ctx context.Context, dsn string) (Backend, error)

var registry struct {
	sync.Mutex
	openers map[string]Opener
}

// ErrUnknownScheme: no backend is registered for the scheme of the name.
var ErrUnknownScheme = errors.New("no backend is registered for this scheme")

// Register makes a backend available to Open under the schemes ("postgres" for
// "postgres://…"). It panics if one is taken. written is the [Version] that the backend was
// written for and tested with, as a number. If it is another one, Open fails with ErrContract.
func Register(written ContractVersion, open Opener, schemes ...string) {
	if written != Version {
		open = func(context.Context, string) (Backend, error) {
			return nil, fmt.Errorf("%w: the backend for %s was written for version %d of package backend, this is version %d: "+
				"use releases of both that match", ErrContract, strings.Join(schemes, ", "), written, Version)
		}
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.openers == nil {
		registry.openers = make(map[string]Opener)
	}
	for _, s := range schemes {
		if _, dup := registry.openers[s]; dup {
			panic("parley: backend.Register called twice for scheme " + s)
		}
		registry.openers[s] = open
	}
}

// Schemes lists the registered schemes.
func Schemes() []string {
	registry.Lock()
	defer registry.Unlock()
	var s []string
	for name := range registry.openers {
		s = append(s, name)
	}
	slices.Sort(s)
	return s
}

// Open makes a backend by the scheme of the name.
func Open(ctx context.Context, dsn string) (Backend, error) {
	scheme, _, ok := strings.Cut(dsn, ":")
	if !ok || scheme == "" {
		return nil, fmt.Errorf("%w: %q has none; write it like sqlite:app.db or postgres://user@host/db", ErrUnknownScheme, redact(dsn))
	}
	registry.Lock()
	open := registry.openers[scheme]
	registry.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w: %q; known: %s (forgotten import?)", ErrUnknownScheme, scheme, strings.Join(Schemes(), ", "))
	}
	return open(ctx, dsn)
}

// redact leaves nothing of a name that may hold a password.
func redact(dsn string) string {
	if len(dsn) > 8 {
		return dsn[:8] + "…"
	}
	return dsn
}
