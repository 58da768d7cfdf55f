package vantage

import "strings"

// Quote writes argv as one command line for a login shell, which is the only form that SSH's exec request has. Every
// word is quoted so that sh, bash, zsh and fish read back exactly the same words; a quote and a backslash go into
// double quotes of their own, because fish, unlike the others, gives a backslash a meaning in single quotes.
// A NUL byte cannot be in an argument; it is dropped.
func Quote(argv []string) string {
	var b strings.Builder
	for i, word := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, word)
	}
	return b.String()
}

func quoteWord(b *strings.Builder, word string) {
	b.WriteByte('\'')
	for i := 0; i < len(word); i++ {
		switch c := word[i]; c {
		case 0:
		case '\'':
			b.WriteString(`'"'"'`)
		case '\\':
			b.WriteString(`'"\\"'`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
}
