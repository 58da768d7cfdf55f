package logfile

import (
	"strings"
)

// Limits of JSON: nesting, bytes of a text kept at a time, and bytes of texts that wait for the end of their objects.
const (
	maxDepth  = 64
	maxString = 64 << 10
	maxHeld   = 4 << 20
)

// waiting is a text with the driver's words whose object has not ended.
type waiting struct {
	line int
	key  string
	text string
}

// object is one that has begun, or an array.
type object struct {
	array  bool
	key    string // under which it is
	at     string // the key whose value comes
	wants  byte   // what may come: 'k' a key, ':', 'v' a value, ',' after one; an end may be instead of 'k' and ','
	values int
	fields fields
	texts  []waiting
	bytes  []byte // numbers of an array: journald's form of a message that is no UTF-8
}

// parser of JSON, byte by byte, so that a document of any length fits. done is called at the end of an object that
// has texts, lost for texts whose object never ended properly.
type jsonParser struct {
	done func(texts []waiting, f *fields)
	lost func(waiting)

	stack  []*object
	str    []byte
	word   []byte // number or literal
	inStr  bool
	escape int // 1 behind a backslash, then 2 to 5 for the digits of \u
	unit   rune
	high   rune // first half of a surrogate pair
	failed bool
	line   int
	held   int // bytes in texts
}

// feed takes bytes of a line, and returns how many it used: the value ended there, or the text is not JSON (failed).
func (j *jsonParser) feed(b []byte, line int) int {
	j.line = line
	for i, c := range b {
		if j.inStr {
			j.char(c)
		} else {
			j.outside(c)
		}
		if j.failed {
			return i
		}
		if len(j.stack) == 0 && !j.inStr {
			return i + 1
		}
	}
	return len(b)
}

// deep reports whether a value has begun and not ended.
func (j *jsonParser) deep() bool { return len(j.stack) > 0 }

func (j *jsonParser) top() *object { return j.stack[len(j.stack)-1] }

func (j *jsonParser) outside(c byte) {
	switch c {
	case '{', '[':
		j.open(c == '[')
		return
	}
	if len(j.stack) == 0 {
		j.failed = true
		return
	}
	switch t := j.top(); c {
	case '"':
		if j.inStr = len(j.word) == 0 && (t.wants == 'k' || t.wants == 'v'); !j.inStr {
			j.failed = true
		}
		j.str = j.str[:0]
	case ' ', '\t', '\r', '\n':
		j.endWord()
	case ':':
		j.expect(':', 'v')
	case ',':
		j.endWord()
		if t.array {
			j.expect(',', 'v')
		} else {
			j.expect(',', 'k')
		}
	case '}', ']':
		j.endWord()
		if t.array != (c == ']') || t.wants == ':' || (t.wants == 'v' && !t.array) {
			j.failed = true
			return
		}
		j.close()
	default:
		if t.wants != 'v' || len(j.word) > 40 ||
			(strings.IndexByte("+-.", c) < 0 && (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != 'E') {
			j.failed = true
			return
		}
		j.word = append(j.word, c)
	}
}

// expect takes a separator, behind which something else is wanted.
func (j *jsonParser) expect(now, then byte) {
	t := j.top()
	j.failed = j.failed || t.wants != now
	t.wants = then
}

func (j *jsonParser) open(array bool) {
	if len(j.stack) == maxDepth || len(j.word) > 0 {
		j.failed = true
		return
	}
	o := &object{array: array, wants: 'k'}
	if array {
		o.wants = 'v'
	}
	if len(j.stack) > 0 {
		j.expect('v', ',')
		t := j.top()
		t.values++
		o.key = t.at
	}
	if array {
		o.at = o.key
	}
	j.stack = append(j.stack, o)
}

// endWord takes a number or a literal.
func (j *jsonParser) endWord() {
	if len(j.word) == 0 {
		return
	}
	t, w := j.top(), string(j.word)
	j.word = j.word[:0]
	j.expect('v', ',')
	t.values++
	if n := num(w); t.array && n < 256 && len(t.bytes) < maxString && (n > 0 || w == "0") {
		t.bytes = append(t.bytes, byte(n))
		return
	}
	if w != "null" && w != "true" && w != "false" {
		j.holder().fields.add(t.at, w)
	}
}

// holder is the object that a value belongs to: for one of an array, the object around it.
func (j *jsonParser) holder() *object {
	for i := len(j.stack) - 1; i > 0; i-- {
		if !j.stack[i].array {
			return j.stack[i]
		}
	}
	return j.stack[0]
}

// endString takes a key or a value.
func (j *jsonParser) endString() {
	t, s := j.top(), string(j.str)
	if t.wants == 'k' {
		t.at, t.wants = s[:min(len(s), maxValue)], ':'
		if hinted(j.str) {
			j.lost(waiting{j.line, "", s})
		}
		return
	}
	t.values++
	t.wants = ','
	j.value(s)
}

func (j *jsonParser) value(s string) {
	if (hinted([]byte(s)) && driverAt(plain(s)) >= 0) || strings.Contains(s, banner) {
		j.hold(s)
		return
	}
	j.holder().fields.add(j.top().at, s)
}

// hold keeps a text until its object ends, without the lines that say nothing of the driver.
func (j *jsonParser) hold(s string) {
	w := waiting{j.line, j.top().at, s}
	if strings.Count(s, "\n") > 8 {
		w.text = ""
		for line := range strings.SplitSeq(s, "\n") {
			if hinted([]byte(line)) || strings.Contains(line, banner) {
				w.text += line + "\n"
			}
		}
	}
	h := j.holder()
	if j.held += len(w.text); j.held > maxHeld {
		j.lost(w)
		return
	}
	h.texts = append(h.texts, w)
}

// close ends an object or an array.
func (j *jsonParser) close() {
	o := j.top()
	if o.array && len(o.bytes) > 0 {
		j.value(string(o.bytes))
	}
	j.stack = j.stack[:len(j.stack)-1]
	if len(j.stack) == 0 {
		j.emit(o)
		return
	}
	if o.array {
		return
	}
	outer := j.holder()
	if len(o.texts) > 0 && o.values > 1 {
		for i := len(j.stack) - 1; i >= 0; i-- {
			if h := j.stack[i].fields.host(); h != "" {
				o.fields.add("outer.host", h)
			}
		}
		j.emit(o)
		return
	}
	for _, w := range o.texts { // a mere wrapper: what is said about the text is around it
		w.key = o.key
		outer.texts = append(outer.texts, w)
	}
	if name := o.fields.get("key"); name != "" && len(o.texts) == 0 { // OpenTelemetry's form of a field
		if v := o.fields.get("value", "value.stringvalue", "stringvalue"); v != "" {
			outer.fields.add(name, v)
			return
		}
	}
	for _, v := range o.fields.all {
		outer.fields.add(o.key+"."+v.key, v.value)
	}
}

func (j *jsonParser) emit(o *object) {
	for _, w := range o.texts {
		j.held -= len(w.text)
	}
	j.done(o.texts, &o.fields)
}

// end gives up what has not ended: the file is cut there, or the text is not JSON.
func (j *jsonParser) end() {
	for _, o := range j.stack {
		for _, w := range o.texts {
			j.lost(w)
		}
	}
	if hinted(j.str) && j.inStr {
		j.lost(waiting{j.line, "", string(j.str)})
	}
	*j = jsonParser{done: j.done, lost: j.lost}
}
