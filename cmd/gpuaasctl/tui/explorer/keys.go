package explorer

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuaas/gpuaasctl/internal/page"
)

// binding is the action of keys. Its text is the help's; a short text is also in the footer.
type binding struct {
	names       []string // of the keys, in the terminal library's spelling
	shown, does string
	short       string
	do          func(m *model, name string) tea.Cmd
}

// bindings are all keys for a document, in the order of the help. Names are unique.
func bindings(d *Document) []binding {
	moves := func(do func(*model)) func(*model, string) tea.Cmd {
		return func(m *model, _ string) tea.Cmd {
			do(m)
			return nil
		}
	}
	var opens, again string
	if slices.ContainsFunc(d.Items, func(i Item) bool { return i.Open != nil }) {
		opens = "enter opens"
	}
	if slices.ContainsFunc(d.Items, func(i Item) bool { return i.Again != "" }) {
		again = "r again"
	}
	all := []binding{
		{[]string{"up", "k"}, "up, k", "choose the " + d.Noun + " above", "",
			moves(func(m *model) { m.choose(m.chosen - 1) })},
		{[]string{"down", "j"}, "down, j", "choose the " + d.Noun + " below", "",
			moves(func(m *model) { m.choose(m.chosen + 1) })},
		{[]string{"g", "home"}, "g", "choose " + d.Whole + " as a whole", "", moves(func(m *model) { m.choose(0) })},
		{[]string{"G", "end"}, "G", "choose the last " + d.Noun, "",
			moves(func(m *model) { m.choose(len(m.doc.Items) - 1) })},
		{[]string{"b"}, "b", "choose " + d.Pick, "", moves(func(m *model) { m.choose(m.doc.First) })},
		{[]string{"right", "l", "tab"}, "right, l, tab", "the next section", "", moves(func(m *model) { m.toSection(1) })},
		{[]string{"left", "h", "shift+tab"}, "left, h", "the section before", "",
			moves(func(m *model) { m.toSection(-1) })},
		{[]string{"space", "pgdown", "ctrl+d", "ctrl+f"}, "space, ctrl-d", "a page down", "",
			moves(func(m *model) { m.scroll(max(m.rows()-2, 1)) })},
		{[]string{"pgup", "ctrl+u", "ctrl+b"}, "ctrl-u", "a page up", "",
			moves(func(m *model) { m.scroll(-max(m.rows()-2, 1)) })},
		{[]string{"J", "shift+down", "ctrl+e"}, "J", "a line down", "", moves(func(m *model) { m.scroll(1) })},
		{[]string{"K", "shift+up", "ctrl+y"}, "K", "a line up", "", moves(func(m *model) { m.scroll(-1) })},
		{[]string{"/"}, "/", "search a text everywhere", "/ search", moves((*model).search)},
		{[]string{"n"}, "n", "the next match", "", moves(func(m *model) { m.toMatch(1) })},
		{[]string{"N"}, "N", "the match before", "", moves(func(m *model) { m.toMatch(-1) })},
		{[]string{"e"}, "e", "explain the words of this " + d.Noun, "e explain",
			moves(func(m *model) { m.cover(overExplain) })},
		{[]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "y"}, "1-9, y",
			"copy the command of that number, the next one",
			"1-9 copy", (*model).copy},
		{[]string{"enter"}, "enter", "open it, where it has more than a page", opens, moves((*model).open)},
		{[]string{"r"}, "r", "walk this " + d.Noun + " again", again, func(m *model,
			_ string) tea.Cmd {
			return m.walkAgain()
		}},
		{[]string{"esc", "backspace"}, "esc", "back; ends a walk, a search", "", moves((*model).back)},
		{[]string{"?"}, "?", "this help", "? help", moves(func(m *model) { m.cover(overHelp) })},
		{[]string{"ctrl+z"}, "ctrl-z", "suspend", "", func(*model, string) tea.Cmd { return tea.Suspend }},
		{[]string{"q"}, "q", "back, or quit", "q quit", func(m *model, _ string) tea.Cmd {
			switch {
			case m.over != overNothing:
				m.cover(overNothing)
			case len(m.above) > 0:
				m.ascend()
			default:
				m.left = true
				return tea.Quit
			}
			return nil
		}},
		{[]string{"ctrl+c"}, "ctrl-c", "quit", "", func(*model, string) tea.Cmd { return tea.Quit }},
	}
	return slices.DeleteFunc(all, func(b binding) bool {
		return (b.names[0] == "enter" && opens == "") || (b.names[0] == "r" && again == "")
	})
}

// pressed does what a key does.
func (m *model) pressed(name string) tea.Cmd {
	for _, b := range m.keys {
		if slices.Contains(b.names, name) {
			return b.do(m, name)
		}
	}
	return nil
}

// shortHelp lists the most useful keys, as many as the terminal has room for.
func (m *model) shortHelp() string {
	text := "? help · q quit"
	if len(m.above) > 0 {
		text = "? help · q back"
	}
	for _, b := range m.keys {
		more := text + " · " + b.short
		if b.short != "" && b.short != "? help" && b.short != "q quit" && page.Width(more) <= m.width {
			text = more
		}
	}
	return text
}

// helpPage lists every key, with notes.
func (m *model) helpPage() []page.Block {
	t := page.Table{Columns: page.Titles("key", "what it does")}
	for _, b := range m.keys {
		t.Rows = append(t.Rows, page.Cells(b.shown, b.does))
	}
	about := "Copying needs a terminal with OSC 52 (in tmux: set-clipboard on)."
	if slices.ContainsFunc(m.keys, func(b binding) bool { return b.names[0] == "r" }) {
		about += " Only r measures anything."
		if m.o.Again == nil {
			about += " It is off: " + m.o.NoAgain
		}
	}
	return []page.Block{t, page.Blank{}, page.Para{Text: about}}
}
