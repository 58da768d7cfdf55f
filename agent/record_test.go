package agent

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// maxSlots is how many slots per minute a storm may write to the disk on average.
const maxSlots = 3

// TestARetryStormKeepsFirstAndLast runs the real agent for a day of virtual time against a platform that is dead,
// and in the second half dead in another way. The record writes fewer than 3 slots a minute to the disk, and
// contains the first cause as well as the last, with their counts.
func TestARetryStormKeepsFirstAndLast(t *testing.T) {
	ca := newAuthority(t, "test CA")
	dir := t.TempDir()
	(*fakePlatform)(nil).credentials(t, dir, ca, time.Now().Add(1000*24*time.Hour))
	must(t, os.WriteFile(filepath.Join(dir, fileBundle), []byte(ca.pem()), 0o644))
	synctest.Test(t, func(t *testing.T) {
		disk, began := durabletest.New(false), time.Now()
		r := recorder.Open(recorder.Config{Dir: "/disk", Mirror: "/memory", Boot: "boot-1", NodeID: testNode, FS: disk,
			Mono: func() int64 { return int64(time.Since(began)) }})
		made, dials := disk.Count(durable.OpWrite), 0
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		must(t, Run(ctx, Config{NodeID: testNode, APIURL: &url.URL{Scheme: "https", Host: "api.test:443"}, Dir: dir,
			Recorder: NewHostRecord(r, slog.New(slog.DiscardHandler)),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				dials++
				errno := syscall.ECONNREFUSED
				if time.Since(began) > 12*time.Hour {
					errno = syscall.EHOSTUNREACH
				}
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
			}}))
		r.Close()
		written := disk.CountIn(durable.OpSync, "/disk")
		perMinute := float64(written) / (24 * 60)
		t.Logf("%d tries, %d slots on the disk: %.2f a minute (and %d operations of its making)", dials, written, perMinute,
			made)
		if perMinute >= maxSlots {
			t.Errorf("%.2f slots a minute", perMinute)
		}
		sub, err := disk.Files().Sub("disk")
		must(t, err)
		f, err := record.Read(sub)
		must(t, err)
		tellsOfTheStorm(t, f, dials)
	})
}

// tellsOfTheStorm checks that the record has the first cause and the last, and counts every attempt.
func tellsOfTheStorm(t *testing.T, f diag.RecordFacts, dials int) {
	t.Helper()
	if s := record.StoryOf(f); s.FirstCause == nil || s.FirstCause.Failure != diag.TCPRefused ||
		s.FirstCause.Attempt != 1 || s.LastDecision.Reason != diag.RecShutdown {
		t.Errorf("the story is %+v", s)
	}
	counted, newest := int64(0), map[diag.Failure]int64{}
	last := map[string]diag.RecordEntry{}
	for _, e := range f.Entries {
		if e.Attempt > 0 {
			newest[e.Failure] = max(newest[e.Failure], e.Count)
			k := e.About + string(e.Failure)
			if e.Count >= last[k].Count {
				last[k] = e
			}
		}
	}
	for _, e := range last {
		counted += max(1, e.Count)
	}
	if newest[diag.TCPRefused] < 1000 || newest[diag.TCPNoRoute] < 1000 || counted < int64(dials)*9/10 {
		t.Errorf("of %d tries %d are counted: %v", dials, counted, newest)
	}
	if len(f.Damaged) > 0 || f.Degraded != "" || f.Missing > 0 {
		t.Errorf("damaged %v, degraded %q, %d missing", f.Damaged, f.Degraded, f.Missing)
	}
}
