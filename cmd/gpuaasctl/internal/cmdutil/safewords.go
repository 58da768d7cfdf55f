package cmdutil

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// SafeWords is where all completions of all commands pass: the scripts of cobra evaluate the words of a command line
// (`eval` in bash and zsh), and names come from files of others: nodes of a profile, profiles, kept runs, drills. A
// word with any other character than those of ids, paths and addresses is not offered.
type SafeWords struct {
	To   io.Writer
	line []byte // of a line that has not ended
}

// Completes reports whether args ask for completions.
func Completes(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0])
}

// Write implements io.Writer: each line is a word, a tab and its description, or the directive at the end.
func (s *SafeWords) Write(p []byte) (int, error) {
	s.line = append(s.line, p...)
	for {
		line, rest, whole := bytes.Cut(s.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		s.line = rest
		word, _, _ := strings.Cut(string(line), "\t")
		if word == "" || strings.ContainsFunc(word, unsafeInWord) {
			continue
		}
		if _, err := s.To.Write(append(line[:len(line):len(line)], '\n')); err != nil {
			return 0, err
		}
	}
}

func unsafeInWord(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:@/-", r)
}
