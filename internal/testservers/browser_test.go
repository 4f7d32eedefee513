package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBrowser: a browser that is missing is installed, where that is possible and wanted.
func TestBrowser(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	var installed []string
	env := environment{get: func(string) string { return "" }, log: io.Discard,
		install: func(_ context.Context, _ io.Writer, packages []string) error {
			installed = packages
			return os.WriteFile(filepath.Join(bin, "chromium"), []byte("#!/bin/sh\necho Chromium 1.2\n"), 0o755)
		}}
	never := env
	never.get = func(name string) string { return map[string]string{"PARLEY_TEST_INSTALL": "0"}[name] }
	if _, err := never.browser(t.Context()); err == nil || !strings.Contains(err.Error(), "forbids") || installed != nil {
		t.Errorf("with PARLEY_TEST_INSTALL=0: %v, installed %v", err, installed)
	}
	fails := env
	fails.install = func(context.Context, io.Writer, []string) error { return errors.New("no network") }
	if _, err := fails.browser(t.Context()); err == nil || !strings.Contains(err.Error(), "no network") {
		t.Errorf("without a network: %v", err)
	}
	if version, err := env.browser(t.Context()); version != "Chromium 1.2" || err != nil || !slices.Contains(installed, "chromium") {
		t.Errorf("version %q, %v, installed %v", version, err, installed)
	}
}
