//go:build !unix

package sqlite

import (
	"io/fs"
	"os"
)

// mayWrite returns an error if this process must not write to a file or in a folder.
func mayWrite(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && info.Mode()&0o200 == 0 {
		return fs.ErrPermission
	}
	return err
}
