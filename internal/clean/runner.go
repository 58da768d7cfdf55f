package clean

import (
	"bytes"
	"unicode"
)

// A CI system executes commands that it finds in a job's log. They are of two forms:
//
//	##[error]...  ##vso[task.setvariable ...]  ##teamcity[...]  ##octopus[...]   anywhere in a line
//	::set-output name=...::                                                      at its start, after spaces
//
// The first belongs to Azure Pipelines, TeamCity, Octopus and older GitHub runners, the second to GitHub, Gitea and
// Forgejo. Those of GitLab, Jenkins and Buildkite need an escape character, which never passes. Markers that only fold
// a log (travis_fold:, and Buildkite's lines of "--- ") are left alone.

// line is the state of a scan for such commands.
type line struct {
	text   bool // the line began with something other than spaces
	colons int  // spaces and so many colons, so far
	hashes int  // number signs just before, and the word after two of them
}

// Inert disables commands to CI systems in a text: the bracket becomes \u005b, and :: at a line's start gets a space,
// except before a digit, since ::1 is an address. No line of JSON begins with a colon, and outside of strings its
// brackets follow no number sign, so a document keeps its value.
func Inert(text []byte) []byte { return new(line).inert(text) }

// inert is Muted for a text that continues the line.
func (l *line) inert(text []byte) []byte {
	if l.ordinary(text) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for _, r := range string(text) {
		switch {
		case r == '\n':
			*l = line{}
		case l.text:
		case l.colons == 2:
			if r < '0' || r > '9' {
				out = append(out, ' ')
			}
			l.text = true
		case r == ':':
			l.colons++
		case l.colons > 0 || !unicode.IsSpace(r):
			l.text = true
		}
		if r == '[' && l.hashes >= 2 {
			out = append(out, `\u005b`...)
		} else {
			out = append(out, string(r)...)
		}
		l.hash(r)
	}
	return out
}

// ordinary reports whether the text has no part of a command, as most, and if so continues the line with it.
func (l *line) ordinary(text []byte) bool {
	if l.hashes > 0 || l.colons > 0 || len(text) == 0 || text[len(text)-1] == ':' ||
		bytes.IndexByte(text, '#') >= 0 || bytes.Contains(text, []byte("::")) {
		return false
	}
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		l.text, text = false, text[i+1:]
	}
	l.text = l.text || len(bytes.TrimSpace(text)) > 0
	return true
}

// hash counts number signs. A name may follow two of them, in which a comparison by the rules of a language ignores
// some runes: above ASCII all are taken for a part of it.
func (l *line) hash(r rune) {
	switch {
	case r == '#':
		l.hashes++
	case r > unicode.MaxASCII:
	case l.hashes >= 2 && (r == '_' || r == '-' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r)):
	default:
		l.hashes = 0
	}
}
