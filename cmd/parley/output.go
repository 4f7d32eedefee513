package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"

	"github.com/parleymq/parley/backend"
)

// print writes v as JSON, or as a table.
func (c *call) print(v any, head string, rows func(row func(...any))) error {
	if c.json {
		return c.encode(v)
	}
	table := [][]string{strings.Split(head, "\t")}
	rows(func(cells ...any) {
		row := make([]string, len(cells))
		for i, cell := range cells {
			row[i] = shown(fmt.Sprint(cell))
		}
		table = append(table, row)
	})
	if width, ok := screen(c.stdout); ok {
		return writeFitting(c.stdout, table, width, os.Getenv("NO_COLOR") == "")
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, row := range table {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// encode writes v as JSON in the command's style.
func (c *call) encode(v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(styled(v))
}

// screen returns the width of the terminal that w is.
func screen(w io.Writer) (width int, ok bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(f.Fd()) {
		return 0, false
	}
	width, _, err := term.GetSize(f.Fd())
	return max(width, 1), err == nil
}

// narrowest is to what a column is shortened at most.
const narrowest = 12

// fit shortens the widest columns until the table fits. What can be copied into another
// command, such as an id, stays whole.
func fit(table [][]string, width int) (widths []int) {
	widths = make([]int, len(table[0]))
	whole := make([]bool, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
			whole[i] = whole[i] || isID(cell)
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for total > width {
		widest := -1
		for i, w := range widths {
			if !whole[i] && w > narrowest && (widest < 0 || w >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

func isID(s string) bool {
	_, err := backend.ParseID(s)
	return err == nil
}

// Colours of the states that want attention, and of the head.
const (
	bold, red, yellow, plainText = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
)

var colours = map[string]string{
	"parked": red, "halted": red, "dead": red, "failed": red, "disabled": yellow, "deferred": yellow, "held": yellow, "waits": yellow,
}

// writeFitting writes a table for a terminal.
func writeFitting(w io.Writer, table [][]string, width int, coloured bool) error {
	out := bufio.NewWriter(w)
	widths := fit(table, width)
	for n, row := range table {
		for i, cell := range row {
			text := ansi.Truncate(cell, widths[i], "…")
			pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(text)+2)
			if i == len(row)-1 {
				pad = ""
			}
			colour := colours[cell]
			if n == 0 {
				colour = bold
			}
			if coloured && colour != "" {
				text = colour + text + plainText
			}
			out.WriteString(text + pad)
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// printf writes to standard output, with every argument as shown makes it.
func (c *call) printf(format string, args ...any) {
	for i, a := range args {
		switch a.(type) {
		case int, int64, float64:
		default:
			args[i] = shown(fmt.Sprint(a))
		}
	}
	fmt.Fprintf(c.stdout, format, args...)
}

// count says how many there were.
func (c *call) count(verb, what string, n int) error {
	if c.json {
		return c.encode(map[string]any{"verb": verb, strings.ReplaceAll(what, " ", "_"): n})
	}
	c.printf("%s: %d %s\n", verb, n, what)
	return nil
}

// atLeast shows a count that may have been cut off.
func atLeast(n int) string {
	if n >= backend.CountLimit {
		return fmt.Sprintf("%d+", backend.CountLimit)
	}
	return strconv.Itoa(n)
}

func age(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("15:04:05.000")
}

func date(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
