package logfile

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/gpu/kmsg"
)

// maxNested bounds texts within texts.
const maxNested = 4

// text looks at a text that may have the driver's words: a line of the file, or one within a record.
func (r *reader) text(n int, raw string, ctx context) {
	s := plain(raw)
	d := driverAt(s)
	switch {
	case d < 0:
		r.banner(s, ctx)
	case ctx.other:
		r.foreign(n, s)
	case ctx.quote || ctx.depth > maxNested:
		r.unread(n, s)
	default:
		r.log.Kernel = true
		f := frameOf(s, d, ctx.named)
		if !r.nested(n, s, d, f.writer, ctx) {
			r.framed(n, s, d, f, ctx, strings.HasPrefix(raw, "    ") || strings.HasPrefix(raw, "\t"))
		}
	}
}

func (r *reader) foreign(n int, s string) {
	if Marked(s) {
		r.log.Foreign.add(n, around(s))
	}
}

func (r *reader) unread(n int, s string) {
	if Marked(s) {
		r.log.Unread.add(n, around(s))
	}
}

// framed looks at a text whose driver's words begin at d, behind a frame.
func (r *reader) framed(n int, s string, d int, f frame, ctx context, indented bool) {
	text := s[d:]
	if !slices.ContainsFunc(kmsg.Marks[:], func(name string) bool { return strings.HasPrefix(text, name) }) {
		if open := frameOf(s, -1, ctx.named); open.text <= d {
			f, text = open, s[open.text:]
		}
	}
	if ctx.top && f.bare && len(r.prev) > 0 { // a line of several, whose writer the first names
		if bytes.Count(r.prev, []byte{'"'})%2 == 1 {
			f.writer = unclear
		}
		if before := frameOf(plain(string(r.prev)), -1, false); before.log && before.writer == program {
			f.writer = unclear
			if indented {
				f.writer = program
			}
		}
	}
	if ctx.host == "" {
		ctx.host = f.host
	}
	if ctx.host == "" {
		ctx.host = r.host
	}
	if ctx.at.at == 0 {
		ctx.at = f.at
	}
	switch f.writer {
	case program:
		r.foreign(n, s)
	case unclear:
		r.unread(n, s)
	default:
		r.driver(n, s, text, ctx)
	}
}

// driver counts what the driver's text reports. rsyslog writes a newline as #012.
func (r *reader) driver(n int, s, text string, ctx context) {
	found := false
	for line := range strings.SplitSeq(text, "#012") {
		found = r.boots.find(ctx.host, line, ctx.at) || found
	}
	if !found {
		r.unread(n, s)
	}
}

// shapes of a line within which there is a text.
var shapes = sync.OnceValue(func() (s struct{ pair, logfmt *regexp.Regexp }) {
	s.pair = regexp.MustCompile(`^"([^"\\]{1,64})" *(?::|=>) *(".*")$`)
	s.logfmt = regexp.MustCompile(`(?:^|[ \t])([A-Za-z_][A-Za-z0-9_.@-]{0,40})=`)
	return s
})

// nested looks at texts within s: in quotes, in JSON, in pairs, in a row of CSV. It returns false if s is none of
// these.
func (r *reader) nested(n int, s string, d int, by writer, ctx context) bool {
	if by != unclear && r.table == nil {
		return false
	}
	ctx.depth++
	trimmed := strings.TrimSuffix(strings.TrimSpace(s), ",")
	trimmed = strings.TrimPrefix(trimmed, "- ")
	if len(trimmed) > 2 && (trimmed[0] == '"' || trimmed[0] == '\'') {
		if part := shapes().pair.FindStringSubmatch(trimmed); part != nil {
			value, _ := unquote(part[2])
			r.named([]waiting{{n, part[1], value}}, &fields{}, ctx)
			return true
		}
		if quote := trimmed[0]; trimmed[len(trimmed)-1] == quote && !strings.Contains(trimmed, `","`) {
			value, size := unquote(trimmed)
			if quote == '\'' || size != len(trimmed) {
				value = trimmed[1 : len(trimmed)-1]
			}
			r.lines(n, value, ctx)
			return true
		}
	}
	if i := strings.Index(s, `{"`); i >= 0 && i < d {
		return r.embedded(n, s, i, ctx)
	}
	if at := shapes().logfmt.FindStringIndex(s[:d]); at != nil && strings.Trim(s[:at[0]], " ") != "{" {
		return r.pairs(n, s, d, at[0], ctx)
	}
	if r.table != nil && ctx.top {
		return r.row(n, s, ctx)
	}
	if d > 0 && strings.IndexByte("\",;", s[d-1]) >= 0 && strings.Contains(s[:d], ",") {
		return r.values(n, s, ctx)
	}
	return false
}

// lines looks at each line of a text.
func (r *reader) lines(n int, text string, ctx context) {
	ctx.top = false
	for line := range strings.SplitSeq(text, "\n") {
		if hinted([]byte(line)) || strings.Contains(line, banner) {
			r.text(n, line, ctx)
		}
	}
}

// named looks at texts of a record with names: JSON, a journal, CSV.
func (r *reader) named(texts []waiting, f *fields, ctx context) {
	if h := f.host(); h != "" {
		ctx.host = h
	}
	if at := f.at(); at.at != 0 {
		ctx.at = at
	}
	if id := f.get("_boot_id"); len(id) == 32 {
		m := r.boots.of(ctx.host)
		if m.boot != "" && m.boot != id {
			r.boots.next(m)
			m.now.time(ctx.at)
			m.now.lines++
		}
		m.boot = id
	}
	switch f.writer() {
	case kernel:
		ctx.named = true
	case program:
		ctx.other = true
	}
	for _, w := range texts {
		c := ctx
		quotes, logger := f.quotes(w.key)
		c.quote, c.other = c.quote || quotes, c.other || logger
		if trimmed := strings.TrimSpace(w.text); strings.HasPrefix(trimmed, "{") && jsonStart([]byte(trimmed)) == 0 {
			if r.once(w.line, trimmed, c) {
				continue
			}
		}
		r.lines(w.line, w.text, c)
	}
}

// embedded looks at JSON behind a frame, at i.
func (r *reader) embedded(n int, s string, i int, ctx context) bool {
	switch f := frameOf(s, i, ctx.named); f.writer {
	case program:
		r.foreign(n, s)
		return true
	case unclear:
		r.unread(n, s)
		return true
	default:
		if ctx.host == "" {
			ctx.host = f.host
		}
		ctx.at = f.at
	}
	return r.once(n, s[i:], ctx)
}

// once reads JSON that is whole and has the driver's words in it. Else it returns false, having done nothing.
func (r *reader) once(n int, s string, ctx context) bool {
	if ctx.depth++; ctx.depth > maxNested {
		return false
	}
	type ended struct {
		texts  []waiting
		fields *fields
	}
	var all []ended
	j := &jsonParser{
		done: func(texts []waiting, f *fields) { all = append(all, ended{texts, f}) },
		lost: r.lostText,
	}
	used := j.feed([]byte(s), n)
	if j.failed || j.deep() || used == 0 || driverAt(s[used:]) >= 0 {
		return false
	}
	ctx.top = false
	for _, e := range all {
		r.named(e.texts, e.fields, ctx)
	}
	return true
}

// pairs looks at a text in key=value pairs, which begin at i.
func (r *reader) pairs(n int, s string, d, i int, ctx context) bool {
	f := frameOf(s, i, ctx.named)
	if f.writer == program || strings.HasPrefix(strings.TrimSpace(s[i:]), "type=") {
		r.foreign(n, s)
		return true
	}
	var all fields
	var text waiting
	for rest := strings.TrimLeft(s[i:], " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		key, after, ok := strings.Cut(rest, "=")
		if !ok || !isName(key) {
			break
		}
		value, size := unquote(after)
		begin := len(s) - len(after)
		if d >= begin && d < begin+max(size, 1) {
			if after[0] != '"' {
				value, size = after, len(after)
			}
			text = waiting{n, key, value}
		} else {
			all.add(key, value)
		}
		rest = after[size:]
	}
	if text.text == "" || !slices.Contains(textKeys, lower(text.key)) || f.writer == unclear || all.get("level") != "" {
		r.unread(n, s)
		return true
	}
	if ctx.host == "" {
		ctx.host = f.host
	}
	ctx.at, ctx.top = f.at, false
	r.named([]waiting{text}, &all, ctx)
	return true
}
