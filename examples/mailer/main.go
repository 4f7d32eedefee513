// Command mailer sends mails through a queue with many processors, on a database
// of your choice; without -db on a temporary SQLite file.
package main

import "github.com/parleymq/parley/internal/demo"

func main() { demo.Main("mailer") }
