package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// installFor installs the engine's packages, or builds it, where that is possible and wanted.
// Its error says why not.
func (env environment) installFor(ctx context.Context, e engine) error {
	if b, ok := e.(builder); ok {
		if env.get("PARLEY_TEST_INSTALL") == "0" {
			return errors.New("PARLEY_TEST_INSTALL=0 forbids to build it")
		}
		return b.Build(ctx, env.log)
	}
	if r, ok := e.(released); ok && r.version().exact || len(e.Packages()) == 0 {
		return errors.New("and this system has no packages of it")
	}
	return env.installPackages(ctx, e.Packages())
}

func (env environment) installPackages(ctx context.Context, packages []string) error {
	if env.get("PARLEY_TEST_INSTALL") == "0" {
		return errors.New("PARLEY_TEST_INSTALL=0 forbids to install it")
	}
	if env.install == nil {
		return errors.New("not to be installed here")
	}
	return env.install(ctx, env.log, packages)
}

const (
	policyFile = "/usr/sbin/policy-rc.d"
	// policyText answers every question for leave to start a service with no.
	policyText = "#!/bin/sh\n# Written by parley's testservers while it installs packages; delete it if it is still here.\nexit 101\n"

	clusterFile = "/etc/postgresql-common/createcluster.d/parley-testservers.conf"
	clusterText = "# Written by parley's testservers while it installs packages; delete it if it is still here.\ncreate_main_cluster = false\n"
)

// installDebian installs packages, and sees to it that none of them starts a
// service or makes a separate database.
func installDebian(ctx context.Context, log io.Writer, packages []string) error {
	if os.Geteuid() != 0 {
		return errors.New("not root, so no packages are installed")
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		return errors.New("not Debian, so no packages are installed")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("no apt-get to install it")
	}
	// The lock stands outside the cache folder, because there can be several
	// of those and there is only one policy file.
	installing, err := lock(ctx, "/run/parley-testservers.lock")
	if err != nil {
		return err
	}
	defer installing.Close()
	undo, err := forbidServices()
	if err != nil {
		return err
	}
	defer undo()
	fmt.Fprintf(log, "testservers: installing %v\n", packages)
	err = aptGet(ctx, log, append([]string{"install"}, packages...)...)
	if err != nil && ctx.Err() == nil {
		// A bare system knows no packages, an old one knows versions that are gone.
		if err := aptGet(ctx, log, "update"); err != nil {
			return fmt.Errorf("apt-get update: %w", err)
		}
		err = aptGet(ctx, log, append([]string{"install"}, packages...)...)
	}
	if err != nil {
		return fmt.Errorf("apt-get install: %w", err)
	}
	// Nor shall a service come up with the next boot. Without systemd, or
	// without a service of that name, there is nothing to do.
	for _, p := range packages {
		_ = exec.Command("systemctl", "--quiet", "disable", p).Run()
	}
	return ctx.Err()
}

// aptGet is not interrupted: half-installed packages are worse than a wait.
func aptGet(ctx context.Context, log io.Writer, args ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd := exec.Command("apt-get", append([]string{"-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0",
		"-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold", "-o", "Acquire::Retries=3",
		"-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "UCF_FORCE_CONFFOLD=1", "LC_ALL=C.UTF-8")
	cmd.Stdout, cmd.Stderr = log, log
	ownSession(cmd)
	return cmd.Run()
}

// forbidServices makes the system refuse to start services, if it does not do
// so already, and PostgreSQL's package make no cluster, until undo.
func forbidServices() (undo func(), err error) {
	text, err := os.ReadFile(policyFile)
	switch {
	case errors.Is(err, os.ErrNotExist) || string(text) == policyText: // the latter left over by a crash
		if err := os.WriteFile(policyFile, []byte(policyText), 0o755); err != nil {
			return nil, err
		}
		undo = func() { os.Remove(policyFile); os.Remove(clusterFile) }
	case err != nil:
		return nil, err
	default:
		// A policy that the system already has, as containers do, must say no by itself.
		var exit *exec.ExitError
		if err := exec.Command(policyFile, "parley", "start").Run(); !errors.As(err, &exit) || exit.ExitCode() != 101 {
			return nil, fmt.Errorf("%s lets packages start services, so none is installed", policyFile)
		}
		undo = func() { os.Remove(clusterFile) }
	}
	err = os.MkdirAll(filepath.Dir(clusterFile), 0o755)
	if err == nil {
		err = os.WriteFile(clusterFile, []byte(clusterText), 0o644)
	}
	if err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}
