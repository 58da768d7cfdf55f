//go:build linux

package node

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// needNft skips the test if the packet filter cannot be used. make needs installs nft for root, and make test-bare
// fails if a test is skipped because of it.
func needNft(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	if _, err := os.Stat(find("nft")); err != nil {
		t.Skip("skipped: needs nft")
	}
}

func TestListed(t *testing.T) {
	text, elements := listed(
		"table inet x {\n\tset remote4 {\n\t\ttype ipv4_addr\n\t\telements = { 10.9.0.0/16 timeout 5s, 10.0.0.1 timeout " +
			"5s,\n\t\t\t     10.0.0.2 timeout 5s }\n\t}\n}\n")
	if text != "table inet x {\n\tset remote4 {\n\t\ttype ipv4_addr\n\t}\n}\n" ||
		!slices.Equal(elements, []string{"10.0.0.1", "10.0.0.2", "10.9.0.0/16"}) {
		t.Errorf("%q %q", text, elements)
	}
}

// TestBlock makes and undoes every shape of a block in a separate network namespace, and measures the undo.
func TestBlock(t *testing.T) {
	needNft(t)
	blocks := []step.Block{}
	for _, proto := range []string{"tcp", "udp", "any"} {
		for _, ports := range [][]uint16{nil, {443}, {53, 443}} {
			blocks = append(blocks, step.Block{Direction: "out", Proto: proto,
				Remote: []string{"192.0.2.1", "198.51.100.0/24", "2001:db8::1"}, Ports: ports, Verdict: step.Drop},
				step.Block{Direction: "in", Proto: proto, Remote: []string{"0.0.0.0/0", "::/0"}, Ports: ports, Verdict: step.Drop})
		}
	}
	uid := uint32(65534)
	for _, v := range []string{step.Reset, step.Refused} {
		blocks = append(blocks, step.Block{Direction: "out", Proto: "tcp", Remote: []string{"192.0.2.1"}, Ports: []uint16{1},
			UID: &uid, Verdict: v})
	}
	for _, v := range []string{step.NameError, step.ServerFailure} {
		blocks = append(blocks, step.Block{Direction: "in", Proto: "udp", Remote: []string{"0.0.0.0/0"}, Ports: []uint16{53},
			Verdict: v})
	}
	var took []time.Duration
	err := inEmptyNetwork(func() error {
		for i, b := range blocks {
			d, err := blockOnce(b, i)
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	t.Logf("%d blocks; look, undo, look: median %v, worst %v", len(took), took[len(took)/2], took[len(took)-1])
}

// blockOnce makes and undoes a block, and returns the time of the undo including its comparisons.
func blockOnce(b step.Block, i int) (time.Duration, error) {
	ctx := context.Background()
	var s System
	location := Location{Run: "test", Step: "s", N: i, Change: step.Change{Block: &b}, Left: time.Minute}
	want := func(look PlaceState) error {
		found, err := s.Compare(ctx, location)
		if err == nil && found.State != look {
			return orText(nil, "%s: looks like %d (%s), want %d", location.Change.Place(), found.State, found.Text, look)
		}
		return err
	}
	var err error
	if location.Note, err = s.Snapshot(ctx, location); err != nil {
		return 0, err
	}
	if err := s.Make(ctx, location); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := want(Injected); err != nil {
		return 0, err
	}
	if err := s.Undo(ctx, location); err != nil {
		return 0, err
	}
	err = want(Before)
	return time.Since(began), err
}

// TestBlockForeign: a table stays if another process has added rules or elements, but not because the kernel has
// dropped elements.
func TestBlockForeign(t *testing.T) {
	needNft(t)
	for command, want := range map[string]PlaceState{
		"add rule inet TABLE block tcp dport 1 accept":                Foreign,
		"add element inet TABLE remote4 { 192.0.2.9 timeout 9s }":     Foreign,
		"add chain inet TABLE theirs":                                 Foreign,
		"delete element inet TABLE remote4 { 192.0.2.1 timeout 60s }": Injected,
		"flush chain inet TABLE block":                                Foreign,
		"delete table inet TABLE":                                     Before,
		"add table inet theirs":                                       Injected,
	} {
		err := inEmptyNetwork(func() error {
			ctx := context.Background()
			var s System
			b := step.Block{Direction: "out", Proto: "tcp", Remote: []string{"192.0.2.1", "192.0.2.2"}, Verdict: step.Drop}
			location := Location{Run: "test", Step: "s", Change: step.Change{Block: &b}, Left: time.Minute}
			var err error
			if location.Note, err = s.Snapshot(ctx, location); err != nil {
				return err
			}
			if err := s.Make(ctx, location); err != nil {
				return err
			}
			if _, err := must(ctx, strings.ReplaceAll(command, "TABLE", step.Table("test", "s", 0))+"\n", "nft", "-f",
				"-"); err != nil {
				return err
			}
			found, err := s.Compare(ctx, location)
			if err == nil && found.State != want {
				t.Errorf("%s: looks like %d (%s), want %d", command, found.State, found.Text, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}
