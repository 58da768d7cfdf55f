package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/render"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
	"github.com/gpuaas/gpuaasctl/internal/clean"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
)

// doorRounds is how often each side of a check is measured, in turn, and doorCalls the number of calls in each
// measurement.
const doorRounds, doorCalls = 15, 40

// doors measures the cost of each check of untrusted input against the same work without it. It needs neither root
// nor a lab.
func doors(ctx context.Context, o options, t *table) error {
	raw, err := recorded()
	if err != nil {
		return err
	}
	rounds := doorRounds
	if o.quick {
		rounds = doorRounds / 3
	}
	text := raw[0]
	var r diag.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	door(ctx, t, rounds, "read a report, counted before it is decoded",
		func() { _ = bounded.Unmarshal(text, &diag.Report{}, bounded.Document()) },
		func() { _ = json.Unmarshal(text, &diag.Report{}) })
	show := func(w io.Writer) { _ = render.Report(w, &r, render.Options{Format: render.Formats[0], Color: true}) }
	door(ctx, t, rounds, "show a report, through the cleaning writer", func() {
		w := &clean.Writer{To: io.Discard, Colour: true}
		show(w)
		_ = w.Flush()
	}, func() { show(io.Discard) })
	var failed error
	testing.Benchmark(func(b *testing.B) { // sets up a platform in this process, and runs once
		if b.N == 1 && failed == nil {
			failed = nodeDoors(ctx, b, t, rounds)
		}
		b.SkipNow()
	})
	return failed
}

// nodeDoors sends a platform the requests of a node: ingress secret, certificate, source and challenge are checked
// on each request. The comparison is a response of the same process to an unauthenticated caller.
func nodeDoors(ctx context.Context, b *testing.B, t *table, rounds int) error {
	p := platformtest.StartPlatform(b, platformtest.Options{})
	cred := p.Enroll(platformtest.NodeID)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(p.CAPEM))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cred.Pair, nil },
	}}}
	defer client.CloseIdleConnections()
	ask := func(method, url, body string) func() {
		return func() {
			req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set(wire.HeaderNodeInstance, "instance-of-"+platformtest.NodeID)
			resp, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode >= 300 {
				b.Fatalf("%s %s: %s", method, url, resp.Status)
			}
		}
	}
	at := func(path string) string {
		return p.NodeAPIURL + strings.ReplaceAll(path, "{node_id}", platformtest.NodeID)
	}
	health := ask(http.MethodGet, p.NodeAPIURL+wire.PathHealth, "")
	const ident = `{"node_instance_id":"instance-of-` + platformtest.NodeID + `"}`
	door(ctx, t, rounds, "a node's heartbeat, with challenge and clone check",
		ask(http.MethodPost, at(wire.PathHeartbeat), ident), health)
	door(ctx, t, rounds, "a node asks for a task", ask(http.MethodGet, at(wire.PathTaskWait)+"?timeout=0&peek=1", ""),
		health)
	return nil
}

// door adds a line with the cost of one call compared with the other, measured in turn.
func door(ctx context.Context, t *table, rounds int, what string, with, without func()) {
	var a, b []time.Duration
	took := func(do func()) time.Duration {
		began := time.Now()
		for range doorCalls {
			do()
		}
		return time.Since(began) / doorCalls
	}
	for range rounds {
		if ctx.Err() != nil {
			return
		}
		a, b = append(a, took(with)), append(b, took(without))
	}
	w, wo := spreadOf(a), spreadOf(b)
	t.addLine(what, "%.2f times of %s (%s)", float64(w.median)/float64(wo.median), short(wo.median), short(w.median))
}
