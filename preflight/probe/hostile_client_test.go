package probe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/heaptest"
)

// hostile returns a client whose peer answers every request with answer(id).
func hostile(t *testing.T, answer func(id string) string) *Client {
	t.Helper()
	requests, toNode := io.Pipe()
	fromNode, answers := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(answers, `{"hello":{"version":"x","uid":0}}`+"\n")
		for r := bufio.NewReader(requests); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if id, ok := strings.CutPrefix(line, `{"id":"`); ok {
				id, _, _ = strings.Cut(id, `"`)
				_, _ = io.WriteString(answers, answer(id)+"\n")
			}
		}
	}()
	c := NewClient(fromNode, toNode)
	t.Cleanup(func() {
		_ = c.Close()
		_ = requests.Close()
		<-done
	})
	return c
}

func asked(n int) []diag.Request {
	reqs := make([]diag.Request, n)
	for i := range reqs {
		reqs[i] = diag.Request{ID: fmt.Sprint("r", i), Op: diag.OpRecord, Target: "/"}
	}
	return reqs
}

// TestALineOfElements: a line of 4 MiB that would decode to 1 GiB is refused for its number of elements, with the
// reason in the fact of its request; the connection continues.
func TestALineOfElements(t *testing.T) {
	const ceiling = 64 << 20
	for name, head := range map[string]string{
		"entries": `"record":{"entries":[`, "lines": `"journal":{"lines":[`,
		"twice": `"journal":{"lines":[{}]},"record":{"pinned":[`,
	} {
		for i, element := range []string{"{}", "0", "null"} {
			if testing.Short() && i > 0 { // the race detector's run is shorter: the code is the same
				continue
			}
			t.Run(name+" of "+element, func(t *testing.T) {
				times := 0
				c := hostile(t, func(id string) string {
					if times++; times > 3 {
						return `{"id":"` + id + `"}`
					}
					start := `{"id":"` + id + `",` + head
					return start + strings.TrimSuffix(strings.Repeat(element+",", (MaxLine-len(start)-8)/(len(element)+1)), ",") +
						`]}}`
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				heaptest.Under(t, ceiling, func() {
					for _, f := range c.Probe(ctx, asked(3)) {
						if f.Failure == diag.OK || (f.Record != nil && len(f.Record.Entries) > 0) {
							t.Errorf("%q %s: a fact of %d entries", f.Failure, f.Detail, len(f.Record.Entries))
						}
					}
				})
			})
		}
	}
}

// TestAnOverLongListIsNamed: the fact of the request names the limit that its answer exceeds, and the next one is
// answered.
func TestAnOverLongListIsNamed(t *testing.T) {
	times := 0
	c := hostile(t, func(id string) string {
		if times++; times > 1 {
			return `{"id":"` + id + `"}`
		}
		return `{"id":"` + id + `","record":{"entries":[` + strings.Repeat("{},", 9_000) + `{}]}}`
	})
	f := c.Probe(t.Context(), asked(1))[0]
	if f.Failure != diag.Unsupported || !strings.Contains(f.Detail, "more than 8000 list elements") {
		t.Errorf("%q %s", f.Failure, f.Detail)
	}
	if f := c.Probe(t.Context(), asked(1))[0]; f.Failure != diag.OK {
		t.Errorf("the next answer: %q %s", f.Failure, f.Detail)
	}
}

// TestALinkHasATotal: answers that are within their limits one by one, but not in total, end the connection.
func TestALinkHasATotal(t *testing.T) {
	const ceiling = 96 << 20
	text := strings.Repeat("x", 3<<20)
	c := hostile(t, func(id string) string { return `{"id":"` + id + `","detail":"` + text + `"}` })
	heaptest.Under(t, ceiling, func() {
		kept, refused := 0, 0
		for _, f := range c.Probe(t.Context(), asked(64)) {
			if kept += len(f.Detail); f.Failure == diag.SSHTransport &&
				strings.Contains(f.Detail, "larger than this tool keeps") {
				refused++
			}
		}
		if kept > 20<<20 || refused < 50 {
			t.Errorf("%d MiB kept, %d answers refused", kept>>20, refused)
		}
	})
}

// TestABudgetGrows: a link over which a watch makes few requests for days never exceeds its budget.
func TestABudgetGrows(t *testing.T) {
	b := budget{left: 1 << 20}
	now := time.Unix(0, 0)
	for range 100_000 {
		if now = now.Add(2 * time.Second); !b.spend(200<<10, now) {
			t.Fatal("a record of 200 KiB every two seconds is too much")
		}
	}
	if b.spend(64<<20, now) {
		t.Error("64 MiB at once is not too much")
	}
}
