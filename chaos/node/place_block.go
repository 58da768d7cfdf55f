//go:build linux

package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// blockPlace is one nft table, named after the drill. It exists completely or not at all.
type blockPlace struct {
	Location
	before blockNote
}

// blockNote is the listing that the table will have. To find it without touching the machine, the table is made in
// a temporary network namespace. That also shows that this kernel supports it.
type blockNote struct {
	Listing  string   `json:"listing"`  // without elements
	Elements []string `json:"elements"` // sorted
}

func (b *blockPlace) table() string { return step.Table(b.Run, b.Step, b.N) }

func (b *blockPlace) inspect(ctx context.Context) (any, error) {
	if _, there, err := b.list(ctx); err != nil || there {
		return nil, orText(err, "table %s already exists", b.table())
	}
	var out string
	text, _ := b.Change.Block.Ruleset(b.table(), b.Left)
	err := inEmptyNetwork(func() (err error) {
		if _, err := must(ctx, text, "nft", "-f", "-"); err != nil {
			return step.Refuse(step.RefusedUnsupported, "this machine's packet filter does not take the rules: %v", err)
		}
		out, _, err = b.list(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	listing, elements := listed(out)
	return blockNote{listing, elements}, nil
}

func (b *blockPlace) make(ctx context.Context) error {
	text, _ := b.Change.Block.Ruleset(b.table(), b.Left)
	_, err := must(ctx, text, "nft", "-f", "-")
	return err
}

func (b *blockPlace) compare(ctx context.Context) (Observed, error) {
	out, there, err := b.list(ctx)
	if err != nil || !there {
		return Observed{}, err
	}
	listing, elements := listed(out)
	if listing != b.before.Listing {
		return Observed{Foreign, "somebody has changed table " + b.table()}, nil
	}
	for _, e := range elements { // the kernel may have dropped elements, but no process may have added one
		if !slices.Contains(b.before.Elements, e) {
			return Observed{Foreign, "somebody has added " + e + " to table " + b.table()}, nil
		}
	}
	return Observed{State: Injected}, nil
}

func (b *blockPlace) undo(ctx context.Context) error {
	_, text := b.Change.Block.Ruleset(b.table(), 0)
	_, err := must(ctx, text, "nft", "-f", "-")
	return err
}

// list returns the table without counters and times, and whether it exists.
func (b *blockPlace) list(ctx context.Context) (string, bool, error) {
	o, err := tool(ctx, "", "nft", "-s", "list", "table", "inet", b.table())
	switch {
	case err != nil:
		return "", false, err
	case o.code == 0:
		return o.out, true, nil
	case strings.Contains(o.err, "No such file or directory"):
		return "", false, nil
	}
	return "", false, fmt.Errorf("list table %s: %s", b.table(), o.firstLine())
}

// listed splits a listing into the text without elements, and the elements without their times.
func listed(out string) (text string, elements []string) {
	var w strings.Builder
	inside := false
	for line := range strings.SplitAfterSeq(out, "\n") {
		rest, begins := strings.CutPrefix(strings.TrimSpace(line), "elements = {")
		if begins {
			inside, line = true, rest
		}
		if !inside {
			w.WriteString(line)
			continue
		}
		body, _, ends := strings.Cut(line, "}")
		for e := range strings.SplitSeq(body, ",") {
			if f := strings.Fields(e); len(f) > 0 {
				elements = append(elements, f[0])
			}
		}
		inside = !ends
	}
	slices.Sort(elements)
	return w.String(), elements
}

// orText returns err, or an error with that text if err is nil.
func orText(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}
