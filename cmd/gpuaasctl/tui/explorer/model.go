package explorer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuaas/gpuaasctl/page"
)

// over is what the right side shows in place of the chosen item.
type over int

const (
	overNothing over = iota
	overExplain
	overHelp
)

// The model's messages beside keys and sizes.
type (
	// againMsg is the end of a walk again.
	againMsg struct {
		item  int
		fresh *Item
		err   error
	}
	// newerMsg is the report as it is now.
	newerMsg struct{ doc Document }
	// secondMsg comes once a second while something is walked again.
	secondMsg struct{}
)

// walker begins to walk an item again: its end comes once, and stop makes it come soon.
type walker func(item int, what string) (end <-chan againMsg, stop func())

// model is the state of the screen. It has no clock: time comes with messages.
type model struct {
	doc   Document
	above []level // the documents in which this one was opened, the outermost first
	o     Options
	keys  []binding
	begin walker

	width, height int
	chosen        int
	over          over
	shown         side
	at            int // the first line of the right side that is seen
	cache         *sides

	typing  bool // of a text to search
	query   string
	matches []match
	match   int

	copied int // the command that y copied last, from 1
	status string

	left bool // by the key q

	walking *int // the item that is walked again
	stop    func()
	seconds int
}

// level is a document in which another one was opened, and where it was left.
type level struct {
	doc        Document
	chosen, at int
}

// Sizes until the terminal has given its own.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

func newModel(d Document, o Options, begin walker) *model {
	m := &model{doc: d, o: o, keys: bindings(&d), begin: begin, cache: &sides{}, chosen: d.First}
	m.resize(defaultWidth, defaultHeight)
	return m
}

// Init implements tea.Model. Nothing is asked of the terminal.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.PasteMsg:
		if m.typing {
			m.query += page.Clean(msg.Content)
		}
	case tea.KeyPressMsg:
		m.status = ""
		if m.typing {
			return m, m.typed(msg)
		}
		return m, m.pressed(msg.String())
	case secondMsg:
		if m.walking != nil {
			m.seconds++
			return m, second()
		}
	case againMsg:
		m.walked(msg)
	case newerMsg:
		m.newer(msg.doc)
	}
	return m, nil
}

// choose shows another item from its begin.
func (m *model) choose(i int) {
	m.over = overNothing
	m.chosen = min(max(i, 0), len(m.doc.Items)-1)
	m.show(0)
}

// toSection goes to the section so many behind this one; back to the begin of this one first.
func (m *model) toSection(by int) {
	n := m.shown.section(m.at)
	if by < 0 && m.at > m.shown.start(n) {
		by++
	}
	m.show(m.shown.start(n + by))
}

// scroll moves the right side by lines, as far as there is text.
func (m *model) scroll(by int) {
	if most := len(m.shown.lines) - m.rows(); by > 0 {
		by = max(min(by, most-m.at), 0)
	}
	m.show(m.at + by)
}

// cover shows something in place of the item, or the item again where that is shown already.
func (m *model) cover(o over) {
	if o == m.over {
		o = overNothing
	}
	m.over = o
	if o == overExplain && len(m.words()) == 0 {
		m.over, m.status = overNothing, "no word here needs an explanation"
	}
	m.show(0)
}

// back ends what can be ended: what covers the item, then a walk, then a search.
func (m *model) back() {
	switch {
	case m.over != overNothing:
		m.cover(overNothing)
	case m.walking != nil:
		m.stop()
	case len(m.matches) > 0 || len(m.above) == 0:
		m.query, m.matches = "", nil
	default:
		m.leave()
	}
}

// search begins to read a text to search.
func (m *model) search() {
	m.over, m.typing, m.query = overNothing, true, ""
	m.show(m.at)
}

// typed is a key while a text to search is typed.
func (m *model) typed(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "ctrl+c":
		return tea.Quit
	case "esc":
		m.typing, m.query = false, ""
	case "enter":
		m.typing = false
		m.find()
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.query)
		m.query = m.query[:len(m.query)-n]
	case "ctrl+u":
		m.query = ""
	default:
		m.query += msg.Text
	}
	return nil
}

// copy puts a command into the terminal's clipboard: the one of that number, or with y the one behind the last.
func (m *model) copy(name string) tea.Cmd {
	all := m.doc.Commands
	if len(all) == 0 {
		m.status = "nothing to copy: this item has no command"
		return nil
	}
	n := int(name[0] - '0')
	if name == "y" {
		n = m.copied%len(all) + 1
	}
	if n > len(all) {
		m.status = fmt.Sprintf("there is no command [%d], the last one is [%d]", n, len(all))
		return nil
	}
	m.copied = n
	m.status = fmt.Sprintf("copied [%d]: %s", n, all[n-1])
	return tea.SetClipboard(all[n-1])
}

// again walks the chosen item once more, beside the screen.
func (m *model) again() tea.Cmd {
	i := m.chosen
	what := m.doc.Items[i].Again
	switch {
	case m.o.Again == nil:
		m.status = "not walked again: " + m.o.NoAgain
		return nil
	case m.walking != nil:
		m.status = "a " + m.doc.Noun + " is walked again already (esc ends it)"
		return nil
	case what == "":
		m.status = "choose a " + m.doc.Noun + " to walk it again"
		return nil
	}
	m.over = overNothing
	m.show(m.at)
	end, stop := m.begin(i, what)
	m.walking, m.stop, m.seconds = &i, stop, 0
	return tea.Batch(func() tea.Msg { return <-end }, second())
}

func second() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return secondMsg{} }) }

// walked shows what a walk again has found, before what the report has.
func (m *model) walked(msg againMsg) {
	m.walking = nil
	switch {
	case msg.err != nil:
		m.status = "not walked again: " + msg.err.Error()
		return
	case msg.fresh == nil:
		return
	}
	was := &m.doc.Items[msg.item]
	if was.report == nil {
		was.report = new(*was)
	}
	*was = was.report.joined(msg.fresh)
	m.cache.of = nil
	m.status = "walked again: " + strings.TrimSpace(msg.fresh.Name) + " " + msg.fresh.Mark.Text
	if m.chosen == msg.item && m.over == overNothing {
		m.at = 0
	}
	m.show(m.at)
}
