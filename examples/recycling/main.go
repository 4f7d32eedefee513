// Command recycling pushes an audit log over recycled dialogs, on a database of
// your choice; without -db on a temporary SQLite file.
package main

import "github.com/parleymq/parley/internal/demo"

func main() { demo.Main("recycling") }
