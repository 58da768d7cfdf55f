package main

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestPath: a path has the messages that waited for each other, over all connections, and not those that were sent
// beside them, on which nothing depends.
func TestPath(t *testing.T) {
	api, other, idle := &traced{local: "1"}, &traced{local: "2"}, &traced{local: "3"}
	began := time.Now()
	at := func(c *traced, trips float64, sent bool, name string) *burst {
		return &burst{conn: c, at: began.Add(time.Duration(trips * float64(traceRTT))), sent: sent, bytes: 100, name: name}
	}
	all := []*burst{
		at(api, 0, true, "TCP"), at(other, 0, true, "TCP ahead"), at(idle, 0, true, "TCP idle"),
		at(api, 0.5, false, ""), at(other, 0.5, false, ""), at(idle, 0.5, false, ""),
		at(api, 1, true, "read"), at(other, 1, true, "TLS ahead"),
		at(other, 1.3, false, ""), at(api, 1.5, false, ""),
		at(other, 1.8, true, ""),                                 // the handshake's end, at which nothing is asked
		at(other, 2.02, true, "mint"), at(other, 3.3, false, ""), // the server took its time
		at(api, 3.8, true, "row"), at(api, 4.3, false, ""),
		at(idle, 5, false, ""),
	}
	all[len(all)-1].bytes = closeBytes // the end of a connection is no answer
	var names []string
	for _, b := range path(all) {
		names = append(names, b.name)
	}
	if want := []string{"TCP", "read", "mint", "row"}; !slices.Equal(names, want) {
		t.Errorf("the path is %q, want %q", names, want)
	}
	if got := together(all, path(all)); !slices.Equal(got[1], []string{"TLS ahead", "read"}) {
		t.Errorf("beside the read: %q", got[1])
	}
}

// TestFactAt: a message belongs to the request that was open then, of those over its connection; one after the last
// request's end to none.
func TestFactAt(t *testing.T) {
	began := time.Now()
	fact := func(id, local string, from, took float64) diag.Fact {
		return diag.Fact{ID: id, Vantage: "operator", At: diag.At(began.Add(time.Duration(from * float64(traceRTT)))),
			DurationMS: diag.Measured(time.Duration(took * float64(traceRTT))), TCP: &diag.TCPFacts{Local: "127.0.0.1:" + local}}
	}
	rep := &diag.Report{Facts: []diag.Fact{fact("a", "1", 0, 3.1), fact("b", "1", 3.1, 1.1), fact("c", "2", 3.1, 1.1)}}
	for _, c := range []struct {
		trips float64
		want  string
	}{{0, "a"}, {2.05, "a"}, {3.15, "b"}, {4.25, ""}} {
		got := ""
		if f := factAt(rep, &traced{local: "1"}, began.Add(time.Duration(c.trips*float64(traceRTT)))); f != nil {
			got = f.ID
		}
		if got != c.want {
			t.Errorf("at %.2f: %q, want %q", c.trips, got, c.want)
		}
	}
}
