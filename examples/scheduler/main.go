// Command scheduler submits batches of tasks, waits for each, and shows the log, on a
// database of your choice; without -db on a temporary SQLite file.
package main

import "github.com/parleymq/parley/internal/demo"

func main() { demo.Main("scheduler") }
