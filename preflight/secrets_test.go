package preflight

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// gossip answers like the vantage below, and repeats in every text the secrets that any request of the walk has
// carried so far, as servers of one platform can.
type gossip struct {
	hop.Vantage
	heard *seenSecrets
}

type seenSecrets struct {
	mu  sync.Mutex // guards all
	all []string
}

func (g gossip) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	facts := g.Vantage.Probe(ctx, reqs)
	g.heard.mu.Lock()
	defer g.heard.mu.Unlock()
	for i := range reqs {
		for _, s := range reqs[i].Secrets() {
			if v := s.Reveal(); len(v) >= diag.ShortestSecret {
				g.heard.all = append(g.heard.all, v)
			}
		}
	}
	said := strings.Join(g.heard.all, "/")
	for i := range facts {
		f := &facts[i]
		f.Detail += said
		if f.HTTP != nil {
			h := *f.HTTP
			h.Server, h.Location, h.ContentType, h.Page, h.ErrorMessage = said, said, strings.ToLower(said), said, said
			f.HTTP = &h
		}
		if f.TLS != nil {
			f.TLS = &diag.TLSFacts{ServerName: said, Chain: []diag.CertInfo{{Subject: said, DNSNames: []string{said}}}}
		}
		if f.DNS != nil {
			f.DNS = &diag.DNSFacts{Name: said, Addresses: f.DNS.Addresses}
		}
	}
	return facts
}

// TestNoAnswerRepeatsAnotherRequestsSecret: every answer of a walk is cleaned of all its secrets, at whatever place and
// step they were used.
func TestNoAnswerRepeatsAnotherRequestsSecret(t *testing.T) {
	heard := &seenSecrets{}
	facts := inMadeUpTime(t, func(t *testing.T) []diag.Fact {
		e := testEnv()
		e.Token, e.Cookie = diag.NewSecret("0b6f3c52-3f4e-4d5a-8a55-11f0c0ffee00"), diag.NewSecret("sid=short1")
		v := map[string]hop.Vantage{}
		for _, name := range []string{hop.Operator, hop.Node, hop.Platform} {
			v[name] = gossip{&scripted{name: name}, heard}
		}
		facts, _ := walk.Walk(t.Context(), e, testPlan(e), v, nil)
		return facts
	})
	if len(heard.all) < 10 || len(facts) < 20 {
		t.Fatalf("%d secrets in %d facts", len(heard.all), len(facts))
	}
	for i := range facts {
		text, err := json.Marshal(facts[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range heard.all {
			if strings.Contains(string(text), secret) {
				t.Fatalf("%s has %q: %s", facts[i].ID, secret, text)
			}
		}
	}
}
