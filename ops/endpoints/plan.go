package endpoints

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Plan is a change of a hosts file.
type Plan struct {
	Before string `json:"-"` // the whole text
	After  string `json:"-"`
	// Old and New are the managed block's lines without its markers, nil if there is no block.
	Old     []string `json:"old_block"`
	New     []string `json:"new_block"`
	Changed bool     `json:"changed"`
	Manual  []Manual `json:"manual_lines"` // manual lines for the wanted names
}

// Manual is a line outside the block for one of the names.
type Manual struct {
	Line    int    `json:"line"` // from 1
	Name    string `json:"name"`
	Address string `json:"address"`
	Wanted  string `json:"wanted"`
	Agrees  bool   `json:"agrees"` // it gives the wanted address
}

// Conflicts returns the manual lines that differ from the profile.
func (p Plan) Conflicts() []Manual {
	return slices.DeleteFunc(slices.Clone(p.Manual), func(m Manual) bool { return m.Agrees })
}

// Hash identifies a hosts file between plan and apply: its sha256, in lower-case hex.
func Hash(text string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// ErrDamaged is wrapped by every error about markers that do not pair: the end of the block would be a guess, which
// might delete other lines.
var ErrDamaged = errors.New("the managed block is damaged")

// Make plans the block with entries in text. The block keeps its place, or is appended; a second block is removed.
// Without entries the block is removed.
func Make(text string, entries []Entry) (Plan, error) {
	var lines []string
	for _, e := range entries {
		lines = append(lines, e.line())
	}
	p, err := withBlock(text, lines)
	if err != nil {
		return Plan{}, err
	}
	p.Manual = manual(text, entries)
	return p, nil
}

// Restore plans the exact block that a previous plan replaced (its Old).
func Restore(text string, lines []string) (Plan, error) {
	for _, l := range lines {
		if strings.ContainsAny(l, "\n\r") || strings.HasPrefix(strings.TrimSpace(l), Begin) ||
			strings.HasPrefix(strings.TrimSpace(l), End) {
			return Plan{}, fmt.Errorf("%w: a kept line does not fit a block: %q", ErrDamaged, l)
		}
	}
	return withBlock(text, lines)
}

// withBlock replaces the managed block by these lines; without lines it removes the block.
func withBlock(text string, lines []string) (Plan, error) {
	p := Plan{Before: text, New: lines}
	block := ""
	if len(lines) > 0 {
		block = beginLine + "\n" + strings.Join(lines, "\n") + "\n" + endLine + "\n"
	}
	var out strings.Builder
	inside, placed, begun := false, false, 0
	n := 0
	for line := range strings.Lines(text) {
		n++
		switch bare := strings.TrimSpace(line); {
		case strings.HasPrefix(bare, Begin) && inside:
			return Plan{}, fmt.Errorf("%w: it begins at line %d and again at line %d, without an end between", ErrDamaged, begun,
				n)
		case ours(bare, Begin):
			inside, begun = true, n
			if !placed {
				out.WriteString(block)
				placed = true
			}
		case ours(bare, End) && !inside:
			return Plan{}, fmt.Errorf("%w: line %d ends it, and nothing began it", ErrDamaged, n)
		case ours(bare, End):
			inside = false
		case inside:
			p.Old = append(p.Old, strings.TrimRight(line, "\r\n"))
		default:
			out.WriteString(line)
		}
	}
	if inside {
		return Plan{}, fmt.Errorf("%w: it begins at line %d and has no end", ErrDamaged, begun)
	}
	if !placed && block != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			out.WriteString("\n") // terminates a last line without newline, so that it does not run into the block
		}
		out.WriteString(block)
	}
	p.After = out.String()
	p.Changed = p.After != p.Before
	return p, nil
}

// ours reports whether a line is the marker of this package's block, including an older version's, which named no
// purpose. A block of this tool for another purpose is not ours.
func ours(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	if !ok {
		return false
	}
	words := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' || r == ':' })
	return len(words) == 0 || words[0] == "endpoints"
}

// manual lists every line outside the block that gives one of the wanted names an address. The C library and the probe
// use either all lines for a name or the first one, so every other line matters.
func manual(text string, entries []Entry) []Manual {
	var found []Manual
	inside, n := false, 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimSpace(line)
		switch {
		case ours(bare, Begin):
			inside = true
		case ours(bare, End):
			inside = false
		}
		bare, _, _ = strings.Cut(bare, "#")
		fields := strings.Fields(bare)
		if inside || len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, e := range entries {
			if slices.ContainsFunc(fields[1:], func(f string) bool {
				return strings.EqualFold(strings.TrimSuffix(f, "."), e.Name)
			}) {
				want, _ := netip.ParseAddr(e.Address)
				found = append(found, Manual{Line: n, Name: e.Name, Address: addr.String(), Wanted: e.Address,
					Agrees: addr == want})
			}
		}
	}
	return found
}

// Diff returns the change as a unified diff without context: only the block changes. "" if nothing changes.
func (p Plan) Diff() string {
	if !p.Changed {
		return ""
	}
	var b strings.Builder
	for _, side := range [...]struct {
		sign  string
		lines []string
	}{{"-", p.Old}, {"+", p.New}} {
		if len(side.lines) == 0 {
			continue
		}
		for _, l := range append(append([]string{beginLine}, side.lines...), endLine) {
			b.WriteString(side.sign + l + "\n")
		}
	}
	return b.String()
}
