package sqlite

import (
	"fmt"
	"path/filepath"
)

// readOnly says why nothing can be written, if so. It asks the system, since a write on trial would hold up the writers
// of all processes. Nor does it open the file: to close it would release this process's locks on it.
func (p *pool) readOnly() (why string) {
	if p.params.Get("mode") == "ro" || p.params.Get("immutable") == "1" {
		return "the file is opened for reading only"
	}
	if p.params.Has("vfs") { // of a database in memory
		return ""
	}
	for _, path := range []string{p.path, filepath.Dir(p.path)} {
		if err := mayWrite(path); err != nil {
			return fmt.Sprintf("%s: %v", path, err)
		}
	}
	return ""
}
