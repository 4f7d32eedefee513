// Command priority runs the published sample of priority order on a database of
// your choice; without -db on a temporary SQLite file.
package main

import "github.com/parleymq/parley/internal/demo"

func main() { demo.Main("priority") }
