package page

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTableLosesNothing: at every width, a table without maximum widths shows every word, and no line is wider than the
// terminal unless a single word or the first column is.
func TestTableLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + r.IntN(6)
		table := Table{Columns: make([]Column, n)}
		for i := range n {
			table.Columns[i] = Column{Title: strings.ToUpper(words(r, 1)), Right: r.IntN(4) == 0}
		}
		for range r.IntN(5) {
			row := Row{}
			for range n {
				row.Cells = append(row.Cells, Cell{Text: words(r, r.IntN(12)), Style: Style(r.IntN(int(Strong) + 1))})
			}
			table.Rows = append(table.Rows, row)
		}
		limit := minWidth + r.IntN(120)
		out := string(Text(Layout{Width: limit}, table))
		first := 0
		for _, row := range table.Rows {
			first = max(first, Width(row.Cells[0].Text))
			for _, c := range row.Cells {
				for _, word := range strings.Fields(c.Text) {
					if !strings.Contains(out, word) {
						t.Fatalf("%q is lost at %d columns:\n%s", word, limit, out)
					}
				}
			}
		}
		for line := range strings.Lines(out) {
			if got := Width(strings.TrimRight(line, "\n")); got > max(limit, first) {
				t.Fatalf("a line has %d columns of %d:\n%s", got, limit, out)
			}
		}
		pipe := string(Text(Layout{}, table))
		if got := strings.Count(pipe, "\n"); got != len(table.Rows)+1 {
			t.Fatalf("%d rows are %d lines on a pipe:\n%s", len(table.Rows), got, pipe)
		}
	}
}

func words(r *rand.Rand, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf("w%dé%d", r.IntN(1000), r.IntN(10))
	}
	return strings.Join(parts, " ")
}

// TestTableGivesWay: columns are dropped in the order of Drop, then cells are cut to their Least, from the right.
func TestTableGivesWay(t *testing.T) {
	table := Table{
		Columns: []Column{{Title: "a", Least: 14}, {Title: "b", Drop: 2}, {Title: "c", Drop: 1}, {Title: "d", Least: 4}},
		Rows: []Row{Cells(strings.Repeat("a", 20), strings.Repeat("b", 12), strings.Repeat("c", 12),
			strings.Repeat("d", 30))},
	}
	for limit, want := range map[int][4]int{0: {20, 12, 12, 30}, 80: {20, 12, 12, 30}, 60: {20, 12, 12, 9},
		47: {15, 12, 12, 3}, 40: {20, 12, 0, 5}} {
		out := string(Text(Layout{Width: limit}, table))
		for i, letter := range "abcd" {
			if got := strings.Count(strings.Split(out, "\n")[1], string(letter)); got != want[i] {
				t.Errorf("at %d columns %d of %c, want %d:\n%s", limit, got, letter, want[i], out)
			}
		}
		for line := range strings.Lines(out) {
			if limit > 0 && Width(line) > limit+1 {
				t.Errorf("at %d columns: %q", limit, line)
			}
		}
	}
}

// TestLiveColumnsStay: with Min and Max, a column keeps its position whatever the cells contain.
func TestLiveColumnsStay(t *testing.T) {
	columns := []Column{{Title: "x", Min: 8, Max: 8}, {Title: "y"}}
	for _, text := range []string{"", "short", "much longer than that"} {
		out := string(Text(Layout{Width: 80}, Table{columns, []Row{{Cells: []Cell{{Text: text}, {Text: "y"}}}}}))
		for line := range strings.Lines(out) {
			if at := strings.IndexByte(line, 'y'); Width(line[:at]) != 10 {
				t.Errorf("%q: y is at %d in %q", text, at, line)
			}
		}
	}
}

// TestHarmless: no block lets a terminal's control characters through, in text or Markdown.
func TestHarmless(t *testing.T) {
	evil := "a\x1b[2J\u202eb\nc\x07"
	inner := []Block{
		Heading{Text: evil}, Para{Text: evil}, Line{{Text: evil}},
		Fields{{Label: evil, Lead: evil, Text: evil, Command: evil}}, Steps{evil, 3, []string{evil + "`" + evil + "`"}},
		Code(evil), Table{Titles(evil, evil), []Row{Cells(evil, evil)}},
	}
	blocks := append(inner, Fold{evil, inner, true})
	for _, out := range [][]byte{Text(Layout{}, blocks...), Text(Layout{Width: 60, ASCII: true}, blocks...),
		Markdown(blocks...), HTML(blocks...)} {
		if s := string(out); strings.ContainsAny(s, "\x1b\x07\u202e") {
			t.Errorf("%q", s)
		}
	}
}

// TestMarkdownIsBounded: a page that is too long is cut, says so, and closes its folds.
func TestMarkdownIsBounded(t *testing.T) {
	var many Fields
	for range 2000 {
		many = append(many, Field{Label: "x", Text: strings.Repeat("y", 1000)})
	}
	out := string(Markdown(Heading{Text: "h"}, Fold{Title: "more", Blocks: []Block{many}}))
	if len(out) > MarkdownCap || !strings.HasSuffix(out, "</details>\n"+markdownCut) {
		t.Errorf("%d bytes, ending %q", len(out), out[max(0, len(out)-200):])
	}
}

// TestCommandsCanBePasted: a shell reads a wrapped command as the same command, and on a pipe it is one line.
func TestCommandsCanBePasted(t *testing.T) {
	command := `ssh -i /k ops@10.0.0.1 sudo -n sh -c 'a  b; c d' "x y" plain words until the line is full of them`
	for _, limit := range []int{0, 40, 60, 200} {
		var joined []string
		for line := range strings.Lines(string(Text(Layout{Width: limit}, Fields{{Label: "next", Command: command}}))) {
			line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(line, "next")), "$ "))
			joined = append(joined, strings.TrimSuffix(line, ` \`))
		}
		if got := strings.Join(joined, " "); got != command {
			t.Errorf("at %d columns: %s", limit, got)
		}
		if limit == 0 && len(joined) != 1 {
			t.Errorf("a pipe gets %d lines", len(joined))
		}
	}
}
