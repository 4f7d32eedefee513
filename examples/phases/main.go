// Command phases runs ten tasks in five phases and draws what overlapped, on a
// database of your choice; without -db on a temporary SQLite file.
package main

import "github.com/parleymq/parley/internal/demo"

func main() { demo.Main("phases") }
