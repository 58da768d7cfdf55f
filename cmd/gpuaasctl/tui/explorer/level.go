package explorer

import "slices"

// open shows the document of the selected item.
func (m *model) open() {
	item := &m.doc.Items[m.chosen]
	switch {
	case m.walking != nil:
		m.status = "a " + m.doc.Noun + " is walked again (esc ends it)"
		return
	case item.Open == nil:
		m.status = "nothing more is known of this " + m.doc.Noun
		return
	}
	d, err := item.Open()
	if err != nil {
		m.status = "not opened: " + err.Error()
		return
	}
	m.above = append(m.above, level{m.doc, m.chosen, m.at})
	m.enter(d, d.First, 0)
}

// ascend returns to the document from which this one was opened.
func (m *model) ascend() {
	if m.walking != nil { // its result is for an item of this document
		m.status = "a " + m.doc.Noun + " is walked again (esc ends it)"
		return
	}
	last := len(m.above) - 1
	l := m.above[last]
	m.above = m.above[:last]
	m.enter(l.doc, l.chosen, l.at)
}

// enter shows a document from a line of an item.
func (m *model) enter(d Document, chosen, at int) {
	m.doc, m.keys, m.cache = d, bindings(&d), &sides{}
	m.over, m.query, m.matches, m.copied = overNothing, "", nil, 0
	m.chosen = chosen
	m.show(at)
}

// newer replaces the outermost document. The selected item stays selected if the newer document has it.
func (m *model) newer(d Document) {
	if len(m.above) > 0 {
		l := &m.above[0]
		l.chosen, l.doc = d.same(&l.doc, l.chosen), d
		return
	}
	chosen := d.same(&m.doc, m.chosen)
	if m.over == overNothing && d.Items[chosen].id() != m.doc.Items[m.chosen].id() {
		m.at = 0
	}
	m.doc, m.keys, m.cache, m.chosen = d, bindings(&d), &sides{}, chosen
	if len(m.matches) > 0 {
		m.matches = m.matching()
		m.match = min(m.match, max(len(m.matches)-1, 0))
	}
	m.show(m.at)
}

// same returns the index of an item of an older document; if it is gone, the nearest one.
func (d *Document) same(older *Document, chosen int) int {
	id := older.Items[chosen].id()
	if i := slices.IndexFunc(d.Items, func(i Item) bool { return i.id() == id }); i >= 0 {
		return i
	}
	return min(chosen, len(d.Items)-1)
}

func (i *Item) id() string {
	if i.ID != "" {
		return i.ID
	}
	return i.Name
}
