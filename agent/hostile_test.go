package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
)

// TestWhoSaysYesToEverythingIsNotThePlatform: success responses from a public edge, with JSON or without content,
// do not lift what the platform reported.
func TestWhoSaysYesToEverythingIsNotThePlatform(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		unasked bool
		reason  diag.RecordReason
		failure diag.Failure
	}{
		"in JSON": {unasked: true, reason: diag.RecEndpointProfileDrift, failure: diag.MTLSNotRequested,
			answer: func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(wire.HeartbeatResponse{Time: time.Now()})
			}},
		"with no content": {reason: diag.RecAPIUnreachable, failure: diag.HTTPEdgePage,
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFakePlatform(t)
			cfg, rec := recoveryConfig(t, p)
			p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
			must(t, os.MkdirAll(filepath.Join(cfg.Dir, "state"), 0o755))
			must(t, os.WriteFile(filepath.Join(cfg.Dir, "state", fileLedger),
				[]byte(`{"version":1,"quarantined":{"since":"2026-01-01T00:00:00Z","why":"two hosts"}}`), 0o600))
			if tc.unasked {
				p.server.TLS.ClientAuth = 0 // before the first handshake
			}
			p.instead(onHeartbeat, tc.answer)
			stop := start(t, cfg)
			d := rec.await(t, func(d Decision) bool { return d.About == string(TimerHeartbeat) })
			if d.Reason != tc.reason || d.Failure != tc.failure {
				t.Errorf("decision %+v", d)
			}
			stop()
			if l := readLedger(filepath.Join(cfg.Dir, "state", fileLedger)); !l.Quarantined.Active() {
				t.Error("the quarantine is lifted")
			}
		})
	}
}

// TestADenialsWordsAreQuotedInShort: a server's text goes to the log, the record and the ledger, so it is
// truncated and scrubbed: it may be long, and it may echo the request.
func TestADenialsWordsAreQuotedInShort(t *testing.T) {
	p := newFakePlatform(t)
	cfg, rec := recoveryConfig(t, p)
	cfg.Token = p.mint(t, nil)
	log := &logtest.Log{}
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(-time.Minute))
	p.instead(onEnroll, func(w http.ResponseWriter, r *http.Request) {
		deny(w, 403, "no such token: "+r.Header.Get("Authorization")+strings.Repeat(" and again", 1<<16))
	})
	start(t, cfg)
	d := rec.await(t, func(d Decision) bool { return d.About == string(TimerIdentity) && d.What == "retry" })
	if text := fmt.Sprint(d); len(text) > 3*maxQuoted || strings.Contains(text, "canary") {
		t.Errorf("%d bytes: %.600s", len(text), text)
	}
	if text := log.String(); len(text) > 1<<14 || strings.Contains(text, "canary") {
		t.Errorf("the log has %d bytes", len(text))
	}
}

// TestAWatermarkThatNobodyReachedEndsTheSending: if the platform confirms numbers that this node never assigned,
// sending stops, since a retry would get the same response.
func TestAWatermarkThatNobodyReachedEndsTheSending(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	p.credentials(t, cfg.Dir, p.ca, time.Now().Add(time.Hour))
	cfg.Boot = openBoot(inMemory(), slog.New(slog.DiscardHandler), newDecisions())
	must(t, cfg.Boot.out.Add(wire.Event{Kind: wire.EventBoot, Detail: []byte("{}")}))
	must(t, cfg.Boot.out.Replay(1))
	asked := 0
	p.instead("POST "+wire.PathEvents, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_ = json.NewEncoder(w).Encode(wire.EventsResponse{Watermark: 1 << 40})
	})
	r := newRuntime(cfg.withDefaults())
	defer r.api.close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r.sendEvents(ctx)
	if asked != 1 {
		t.Errorf("%d batches were sent", asked)
	}
}

// TestATokenIsUsedAsItWasLookedAt: a token is used only if it is the one that was checked; a replacement may have
// another origin.
func TestATokenIsUsedAsItWasLookedAt(t *testing.T) {
	p := newFakePlatform(t)
	cfg, _ := recoveryConfig(t, p)
	cfg = cfg.withDefaults()
	must(t, os.WriteFile(cfg.EnvFile, []byte(KeyToken+"=before\n"), 0o600))
	asked := 0
	p.instead(onEnroll, func(w http.ResponseWriter, _ *http.Request) { asked++; deny(w, 403, wire.DenyTokenConsumed) })
	r := newRuntime(cfg)
	defer r.api.close()
	looked := tokenFacts(r.token()).Digest
	must(t, os.WriteFile(cfg.EnvFile, []byte(KeyToken+"=of-another-node\n"), 0o600))
	r.enroll(Enroll{Ledger: Ledger{}.begin(time.Now(), diag.RecCertExpired, looked)})
	done := (<-r.events).(EnrollDone)
	if asked != 0 || done.Outcome.OK() || done.Outcome.Sent {
		t.Errorf("asked %d times: %+v", asked, done)
	}
}

// TestMetricsFollowNoLink: the collector's folder often belongs to another user, and this process is root.
func TestMetricsFollowNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Symlink(victim, filepath.Join(dir, ".agent.prom.new")))
	r := newRuntime(Config{MetricsFile: filepath.Join(dir, "agent.prom")}.withDefaults())
	r.showMetrics(WriteMetrics{Posture: wire.PostureServing})
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("it was overwritten: %.60q", text)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "agent.prom")); !strings.Contains(string(text), "posture") {
		t.Errorf("no metrics: %q", text)
	}
}
