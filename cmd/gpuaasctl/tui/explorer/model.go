package explorer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuaas/gpuaasctl/internal/page"
)

// over is what the right side shows instead of the selected item.
type over int

const (
	overNothing over = iota
	overExplain
	overHelp
)

// The model's messages besides keys and sizes.
type (
	// againMsg is the end of a repeated walk.
	againMsg struct {
		item  int
		fresh *Item
		err   error
	}
	// newerMsg is a newer version of the report.
	newerMsg struct{ doc Document }
	// secondMsg is sent once a second during a repeated walk.
	secondMsg struct{}
)

// walker starts to walk an item again: it sends the end once, and stop makes it end soon.
type walker func(item int, what string) (end <-chan againMsg, stop func())

// model is the state of the screen. It has no clock: messages carry the time.
type model struct {
	doc   Document
	above []level // the documents from which this one was opened, outermost first
	o     Options
	keys  []binding
	begin walker

	width, height int
	chosen        int
	over          over
	shown         side
	at            int // the first visible line of the right side
	cache         *sides

	typing  bool // the text to search for is being typed
	query   string
	matches []match
	match   int

	copied int // the command that y copied last, from 1
	status string

	left bool // by the key q

	walking *int // the item that is being walked again
	stop    func()
	seconds int
}

// level is a document from which another one was opened, and its position.
type level struct {
	doc        Document
	chosen, at int
}

// Sizes until the terminal has reported its own.
const (
	defaultWidth  = 80
	defaultHeight = 24
)

func newModel(d Document, o Options, begin walker) *model {
	m := &model{doc: d, o: o, keys: bindings(&d), begin: begin, cache: &sides{}, chosen: d.First}
	m.resize(defaultWidth, defaultHeight)
	return m
}

// Init implements tea.Model. It sends nothing to the terminal.
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

// choose shows another item from its beginning.
func (m *model) choose(i int) {
	m.over = overNothing
	m.chosen = min(max(i, 0), len(m.doc.Items)-1)
	m.show(0)
}

// toSection moves by that many sections; backwards, first to the beginning of the current one.
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

// cover shows something instead of the item, or the item again if that is already shown.
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

// back ends the innermost state: what covers the item, then a repeated walk, then a search.
func (m *model) back() {
	switch {
	case m.over != overNothing:
		m.cover(overNothing)
	case m.walking != nil:
		m.stop()
	case len(m.matches) > 0 || len(m.above) == 0:
		m.query, m.matches = "", nil
	default:
		m.ascend()
	}
}

// search begins to read the text to search for.
func (m *model) search() {
	m.over, m.typing, m.query = overNothing, true, ""
	m.show(m.at)
}

// typed handles a key while the text to search for is typed.
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

// copy copies a command to the terminal's clipboard: the one with that number, or with y the one after the last.
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

// walkAgain walks the selected item again, in the background.
func (m *model) walkAgain() tea.Cmd {
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

// walked shows the result of a repeated walk, above the report's result.
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
