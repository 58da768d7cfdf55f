package openssh

import (
	"errors"
	"strings"
)

var errQuotes = errors.New("invalid quotes")

// cutKeyword splits a line into its keyword and the rest, between which one = may be.
func cutKeyword(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t")
	if strings.HasPrefix(s, `"`) {
		if end := strings.IndexByte(s[1:], '"'); end >= 0 {
			return s[1 : 1+end], strings.TrimLeft(s[end+2:], " \t")
		}
		return "", ""
	}
	end := strings.IndexAny(s, " \t=")
	if end < 0 {
		return s, ""
	}
	word, rest = s[:end], strings.TrimLeft(s[end:], " \t")
	if after, is := strings.CutPrefix(rest, "="); is {
		rest = strings.TrimLeft(after, " \t")
	}
	return word, rest
}

// split splits the arguments of a line as OpenSSH does: with quotes of both kinds, a backslash before a quote, another
// one or a space, and up to a comment.
func split(s string) (words []string, err error) {
	for i := 0; i < len(s); i++ {
		if s[i] == ' ' || s[i] == '\t' {
			continue
		}
		if s[i] == '#' {
			break
		}
		var word []byte
		quote := byte(0)
	scan:
		for ; i < len(s); i++ {
			switch c := s[i]; {
			case c == '\\' && i+1 < len(s) && (strings.IndexByte(`'"\`, s[i+1]) >= 0 || (quote == 0 && s[i+1] == ' ')):
				i++
				word = append(word, s[i])
			case quote == 0 && (c == ' ' || c == '\t'):
				break scan
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote != 0 && c == quote:
				quote = 0
			default:
				word = append(word, c)
			}
		}
		if quote != 0 {
			return nil, errQuotes
		}
		words = append(words, string(word))
	}
	return words, nil
}

// glob reports whether s matches a pattern with * and ?.
func glob(s, pattern string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for i < len(s) {
		switch {
		case j < len(pattern) && pattern[j] == '*':
			star, mark = j, i
			j++
		case j < len(pattern) && (pattern[j] == '?' || pattern[j] == s[i]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[j:], "*") == ""
}

// globList reports whether s matches a list of patterns, separated by commas: one of them, and none that has a ! before
// it.
func globList(s, patterns string) bool {
	matched := false
	for p := range strings.SplitSeq(patterns, ",") {
		p, not := strings.CutPrefix(p, "!")
		switch {
		case !glob(s, p):
		case not:
			return false
		default:
			matched = true
		}
	}
	return matched
}

// hostList is globList without regard to case.
func hostList(host, patterns string) bool {
	return globList(strings.ToLower(host), strings.ToLower(patterns))
}
