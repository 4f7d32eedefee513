package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parleymq/parley"
)

// board is the interactive top: a table of queues, of a queue's groups, or of a group's messages,
// refreshed at intervals.
type board struct {
	ctx    context.Context
	watch  *watch
	every  time.Duration
	queue  string    // whose groups are shown; "" if queues are
	group  parley.ID // whose messages are shown
	groups []parley.GroupStatus

	head    []string
	rows    [][]string
	keys    []string // of rows, by which the chosen one is found again
	chosen  string
	sort    int // column
	down    bool
	filter  string
	typing  bool // the filter
	paused  bool
	says    string
	width   int
	height  int
	serial  int  // of looks: an answer for another view is thrown away
	looking bool // one look at a time
}

// seen is what a look has found.
type seen struct {
	serial int
	head   []string
	rows   [][]string
	keys   []string
	groups []parley.GroupStatus
	err    error
}

// again asks for the next look.
type again struct{ serial int }

// acted is what came of an operator's verb.
type acted struct {
	says string
	err  error
}

func newBoard(ctx context.Context, w *watch, every time.Duration) *board {
	return &board{ctx: ctx, watch: w, every: every, width: 80, height: 24}
}

// groupsShown is how many groups and messages are looked at.
const groupsShown = 200

// Init implements tea.Model.
func (m *board) Init() tea.Cmd { return m.look() }

// look reads what is shown.
func (m *board) look() tea.Cmd {
	if m.looking {
		return nil
	}
	m.looking = true
	serial, queue, group := m.serial, m.queue, m.group
	return func() tea.Msg {
		s := seen{serial: serial}
		switch {
		case group != (parley.ID{}):
			s.err = m.lookAtMessages(&s, queue, group)
		case queue != "":
			s.err = m.lookAtGroups(&s, queue)
		default:
			s.err = m.lookAtQueues(&s)
		}
		return s
	}
}

func (s *seen) add(key string, cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = shown(fmt.Sprint(cell))
	}
	s.rows, s.keys = append(s.rows, row), append(s.keys, key)
}

func (m *board) lookAtQueues(s *seen) error {
	s.head = strings.Split(topColumns, "\t")
	list, err := m.watch.look(m.ctx)
	for _, q := range list {
		s.add(q.Name, q.row()...)
	}
	return err
}

func (m *board) lookAtGroups(s *seen, queue string) (err error) {
	s.head = strings.Split(groupColumns, "\t")
	s.groups, err = m.watch.b.Admin().Groups(m.ctx, queue, parley.Place{}, groupsShown)
	for _, g := range s.groups {
		s.add(g.Group.String(), groupRow(g)...)
	}
	return err
}

func (m *board) lookAtMessages(s *seen, queue string, group parley.ID) error {
	s.head = strings.Split(messageColumns, "\t")
	list, err := messagesOf(m.ctx, m.watch.b, queue, m.state(group), group, groupsShown)
	for _, x := range list {
		s.add(x.ID.String(), messageRow(x)...)
	}
	return err
}

// state is the state in which a group was seen last.
func (m *board) state(group parley.ID) string {
	for _, g := range m.groups {
		if g.Group == group {
			return g.State
		}
	}
	return ""
}

// Update implements tea.Model.
func (m *board) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch x := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = x.Width, x.Height
	case seen:
		return m, m.show(x)
	case again:
		if x.serial == m.serial && !m.paused {
			return m, m.look()
		}
	case acted:
		m.says = x.says
		if x.err != nil {
			m.says = x.err.Error()
		}
		return m, m.look()
	case tea.KeyPressMsg:
		if m.typing {
			m.typed(x)
			return m, nil
		}
		return m, m.pressed(x.String())
	}
	return m, nil
}

// show takes over what a look has found, unless another view is shown by now.
func (m *board) show(s seen) tea.Cmd {
	m.looking = false
	if s.serial != m.serial {
		return m.look()
	}
	if s.err != nil {
		m.says = s.err.Error()
	} else {
		m.head, m.rows, m.keys = s.head, s.rows, s.keys
		if s.groups != nil {
			m.groups = s.groups
		}
	}
	return tea.Tick(m.every, func(time.Time) tea.Msg { return again{s.serial} })
}

// open shows something else.
func (m *board) open(queue string, group parley.ID) tea.Cmd {
	m.queue, m.group = queue, group
	m.serial++
	m.sort, m.down, m.filter, m.chosen, m.rows, m.keys, m.says = 0, false, "", "", nil, nil, ""
	m.paused = false
	if m.looking {
		return nil // its answer asks for the next
	}
	return m.look()
}

// typed edits the filter.
func (m *board) typed(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.filter += k.Key().Text
	}
}

func (m *board) pressed(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "s":
		if m.sort++; m.sort > len(m.head) {
			m.sort = 0
		}
	case "S":
		m.down = !m.down
	case "/":
		m.typing = true
	case "space", " ":
		if m.paused = !m.paused; !m.paused {
			return m.look()
		}
	case "enter", "right":
		return m.enter()
	case "esc", "left":
		switch {
		case m.filter != "":
			m.filter = ""
		case m.group != (parley.ID{}):
			return m.open(m.queue, parley.ID{})
		case m.queue != "":
			return m.open("", parley.ID{})
		}
	case "r":
		return m.act("ready again", func(id parley.ID) error { return m.watch.b.Admin().Unpark(m.ctx, id) })
	case "p":
		return m.act("promoted", func(id parley.ID) error { return m.watch.b.Promote(m.ctx, id) })
	}
	return nil
}

// enter opens what is chosen.
func (m *board) enter() tea.Cmd {
	if m.chosenAt() < 0 || m.group != (parley.ID{}) {
		return nil
	}
	if m.queue == "" {
		return m.open(m.chosen, parley.ID{})
	}
	if id, err := parley.ParseID(m.chosen); err == nil {
		return m.open(m.queue, id)
	}
	return nil
}

// act has an operator's verb done to the group that is chosen or open.
func (m *board) act(done string, do func(parley.ID) error) tea.Cmd {
	id := m.group
	if id == (parley.ID{}) {
		if m.queue == "" || m.chosenAt() < 0 {
			m.says = "choose a group first: enter opens a queue"
			return nil
		}
		id, _ = parley.ParseID(m.chosen)
	}
	return func() tea.Msg { return acted{fmt.Sprintf("group %s is %s", id, done), do(id)} }
}

// visible are the places of rows that the filter leaves, in their order.
func (m *board) visible() (list []int) {
	for i, row := range m.rows {
		if strings.Contains(strings.ToLower(strings.Join(row, "\t")), strings.ToLower(m.filter)) {
			list = append(list, i)
		}
	}
	if m.sort == 0 {
		return list // the order in which they will be received
	}
	slices.SortStableFunc(list, func(a, b int) int {
		n := compareCells(m.rows[a][m.sort-1], m.rows[b][m.sort-1])
		if m.down {
			return -n
		}
		return n
	})
	return list
}

// compareCells compares numbers and ages by their values, and other texts as they are.
func compareCells(a, b string) int {
	x, okA := value(a)
	y, okB := value(b)
	if okA && okB {
		return cmp.Compare(x, y)
	}
	return cmp.Or(strings.Compare(a, b))
}

func value(s string) (float64, bool) {
	if s == "-" {
		return 0, true
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d.Seconds(), true
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "+"), 64)
	return f, err == nil
}

// chosenAt is the place of the chosen row among all, -1 if it is not there any more.
func (m *board) chosenAt() int { return slices.Index(m.keys, m.chosen) }

func (m *board) move(by int) {
	list := m.visible()
	if len(list) == 0 {
		return
	}
	at := slices.Index(list, m.chosenAt())
	at = min(max(at+by, 0), len(list)-1)
	m.chosen = m.keys[list[at]]
}

// View implements tea.Model.
func (m *board) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	v.WindowTitle = "parley top"
	return v
}

const reverse = "\x1b[7m"

func (m *board) text() string {
	list := m.visible()
	table := [][]string{m.titles()}
	for _, i := range list {
		table = append(table, m.rows[i])
	}
	if m.head == nil {
		table = [][]string{{"looking…"}}
	}
	widths := fit(table, m.width)
	// The chosen row stays on the screen.
	room := max(m.height-4, 1)
	at := slices.Index(list, m.chosenAt())
	first := max(0, at-room+1)
	var b strings.Builder
	b.WriteString(m.title() + "\n")
	for n, row := range table {
		if n > 0 && (n-1 < first || n-1 >= first+room) {
			continue
		}
		text := ansi.Truncate(joined(row, widths), m.width, "…")
		switch {
		case n == 0:
			text = bold + text + plainText
		case n-1 == at:
			text = reverse + text + plainText
		}
		b.WriteString(text + "\n")
	}
	b.WriteString(ansi.Truncate(m.foot(len(list)), m.width, "…"))
	return b.String()
}

// titles are the columns' names, with a sign at the one by which rows are sorted.
func (m *board) titles() []string {
	titles := slices.Clone(m.head)
	if m.sort > 0 && m.sort <= len(titles) {
		titles[m.sort-1] += map[bool]string{false: " ↑", true: " ↓"}[m.down]
	}
	return titles
}

func (m *board) title() string {
	text := "parley top"
	if m.queue != "" {
		text += " › " + shown(m.queue)
	}
	if m.group != (parley.ID{}) {
		text += " › " + m.group.String()
	}
	if m.paused {
		text += "  (stands still)"
	}
	return ansi.Truncate(text, m.width, "…")
}

func (m *board) foot(n int) string {
	switch {
	case m.typing:
		return "filter: " + shown(m.filter) + "▏"
	case m.says != "":
		return shown(firstLine(m.says))
	}
	text := fmt.Sprintf("%d of %d", n, len(m.rows))
	if m.filter != "" {
		text += " with " + strconv.Quote(m.filter)
	}
	return text + "  ↑↓ choose  ⏎ open  esc back  s S sort  / filter  r retry  p promote  space stop  q end"
}

func joined(row []string, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		text := ansi.Truncate(cell, widths[i], "…")
		b.WriteString(text)
		if i < len(row)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-ansi.StringWidth(text)+2))
		}
	}
	return b.String()
}
