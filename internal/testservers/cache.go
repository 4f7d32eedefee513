package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// cacheFolder returns where servers live. A server that root starts runs as another user, which
// must have access to the folder. If root's home is closed to others, as is usual, the folder is
// /var/cache/parley-test.
func cacheFolder(env environment) (string, error) {
	if dir := env.get("PARLEY_TEST_CACHE"); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if closed := closedParent(dir); os.Geteuid() == 0 && closed != "" {
			return "", fmt.Errorf("PARLEY_TEST_CACHE: %s is closed to the user that servers run as", closed)
		}
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	switch {
	case os.Geteuid() == 0 && (err != nil || closedParent(dir) != ""):
		dir = "/var/cache"
	case err != nil:
		return "", fmt.Errorf("no cache folder (set PARLEY_TEST_CACHE): %w", err)
	}
	return filepath.Join(dir, "parley-test"), nil
}

// closedParent returns the first folder on the way to dir, or dir itself, that
// users without special rights cannot pass, and "" when there is none.
func closedParent(dir string) string {
	if parent := filepath.Dir(dir); parent != dir {
		if closed := closedParent(parent); closed != "" {
			return closed
		}
	}
	// What does not exist yet will be made open.
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
		return dir
	}
	return ""
}
