package endpoints

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// State is what ReadScript found on a node.
type State struct {
	Text  string
	Mode  string // octal
	Owner string // uid:gid
	Last  *Line  // the newest line of the audit log, or nil
	Left  *Line  // the line whose change produced the current file; nil: another process changed it
}

// Line is one line of the audit log: who replaced which block by which, with the file's digests before and after. It is
// written twice: before the change, and with Done after it.
type Line struct {
	At      time.Time `json:"at"`
	RunID   string    `json:"run_id"`
	By      string    `json:"by"`
	Node    string    `json:"node_id"`
	Profile string    `json:"profile,omitempty"`
	Action  string    `json:"action"` // apply | undo | remove
	Before  string    `json:"before"` // sha256 of the hosts file
	After   string    `json:"after"`
	Old     []string  `json:"old_block"`
	New     []string  `json:"new_block"`
	Done    bool      `json:"done,omitempty"` // the change was completed; ApplyScript appends it to the line
}

// Text returns the line as in the log.
func (l Line) Text() (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("write an audit line: %w", err)
	}
	return string(text), nil
}

// ParseRead parses ReadScript's output. It refuses a text that does not match its digest.
func ParseRead(said []string) (State, error) {
	var s State
	read := false
	for _, line := range said {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case WordFailed:
			return State{}, errors.New(rest)
		case WordHosts:
			fields := strings.SplitN(rest, " ", 4)
			if len(fields) < 4 { // an empty file has no text
				fields = append(fields, "")
			}
			text, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
			if err != nil || len(fields) != 4 || Hash(string(text)) != fields[0] {
				return State{}, errors.New("the hosts file did not arrive whole")
			}
			s.Text, s.Mode, s.Owner, read = string(text), fields[1], fields[2], true
		case WordLog:
			s.Last = parseLine(rest)
		case WordLeft:
			s.Left = parseLine(rest)
		}
	}
	if s.Left != nil && s.Left.After != Hash(s.Text) {
		s.Left = nil
	}
	if !read {
		return State{}, errors.New("read the node's hosts file: the node sent no answer; try again")
	}
	return s, nil
}

// parseLine decodes a line of the log from a sentinel, nil if it does not parse.
func parseLine(coded string) *Line {
	text, err := base64.StdEncoding.DecodeString(coded)
	l := &Line{}
	if err != nil || bounded.Unmarshal(text, l, bounded.Answer()) != nil {
		return nil
	}
	return l
}

// ErrMoved means that the hosts file changed after the plan was made. Nothing was written.
var ErrMoved = errors.New("the hosts file was changed after it was read: nothing was changed")

// ParseApply parses ApplyScript's output: nil if the file now has the digest after.
func ParseApply(said []string, after string) error {
	for _, line := range said {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == WordFailed:
			return errors.New(rest)
		case word == WordMoved:
			return ErrMoved
		case word == WordApplied && rest == after:
			return nil
		case word == WordApplied:
			return fmt.Errorf(
				"the file was replaced, and holds something else now (%.12s, not %.12s): another program writes it", rest, after)
		}
	}
	return errors.New("replace the hosts file: the node did not confirm it; " +
		"run the command again without --apply to see the file")
}
