package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// browserPackages bring a browser, and a font to draw pages with.
var browserPackages = []string{"chromium", "fonts-dejavu-core"}

// browser sees to it that there is the browser in which the console is tested, and returns its version. Unlike a server
// it is never unpacked into the cache folder: it starts itself again, without the loader that came with it.
func (env environment) browser(ctx context.Context) (version string, err error) {
	path, missing := findBrowser()
	if missing != nil {
		if err := env.installPackages(ctx, browserPackages); err != nil {
			return "", fmt.Errorf("%w (%w)", missing, err)
		}
		if path, missing = findBrowser(); missing != nil {
			return "", missing
		}
	}
	return firstLine(path, "--version"), nil
}

// findBrowser looks for the same programs as console/browsertest.
func findBrowser() (path string, err error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium in PATH")
}
