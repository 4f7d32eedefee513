//go:build unix

package sqlite

import "syscall"

// mayWrite returns an error if this process must not write to a file or in a folder.
func mayWrite(path string) error {
	const write = 2 // W_OK
	return syscall.Access(path, write)
}
