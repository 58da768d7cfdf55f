package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
)

// records gives a script a dead node's disk, in dead/, whose record is reached by a link to an absolute path, and a
// damaged copy of it, in damaged/.
func records(e *testscript.Env) error {
	at := func(minute int) diag.Time { return diag.At(time.Date(2030, 1, 1, 12, minute, 0, 0, time.UTC)) }
	stamp := func(seq uint64, minute int, e diag.RecordEntry) diag.RecordEntry {
		e.Seq, e.BootID, e.MonoNS, e.At, e.NodeID = seq, "6c71106c-b36e", int64(minute)*int64(time.Minute), at(minute),
			"compute-node-01"
		return e
	}
	start := stamp(1, 0, diag.RecordEntry{Reason: diag.RecProcessAlive, About: "agent", Decision: "start"})
	contact := stamp(1, 9, diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat",
		Decision: record.DecisionContact, Status: 200, Count: 36, First: at(0), Last: at(9), Pin: record.PinContact})
	cause := stamp(2, 10, diag.RecordEntry{Reason: diag.RecCertExpired, About: "heartbeat", Decision: "retry", Attempt: 1,
		DelayMS: 400, Failure: diag.MTLSIngress400, Status: 400, Detail: "x509: \x1b[31mexpired"})
	last := stamp(3, 59, diag.RecordEntry{Reason: diag.RecCertExpired, About: "heartbeat", Decision: "retry", Attempt: 97,
		DelayMS: 28700, Failure: diag.MTLSIngress400, Status: 400, Count: 97, First: at(10), Last: at(59)})
	ring, pinned := make([]byte, record.Slots*record.Size), make([]byte, record.PinnedSlots*record.Size)
	put := func(file []byte, name string, slot int, e diag.RecordEntry) {
		b := record.Encode(name, slot, e)
		copy(file[slot*record.Size:], b[:])
	}
	for _, e := range []diag.RecordEntry{start, cause, last} {
		put(ring, record.FileRecord, record.SlotOf(e.Seq), e)
	}
	first := cause
	first.Pin = record.PinFirst
	put(pinned, record.FilePinned, 0, first)
	put(pinned, record.FilePinned, 1, contact)
	write := func(dir string) error {
		return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, record.FileRecord), ring, 0o600),
			os.WriteFile(filepath.Join(dir, record.FilePinned), pinned, 0o600))
	}
	dead := filepath.Join(e.WorkDir, "dead")
	err := errors.Join(write(filepath.Join(dead, "data", "gpuaas", "diag")),
		os.MkdirAll(filepath.Join(dead, "var"), 0o700), os.Symlink("/data", filepath.Join(dead, "var", "lib")))
	ring[2*record.Size+300] ^= 1
	clear(ring[3*record.Size : 3*record.Size+512])
	return errors.Join(err, write(filepath.Join(e.WorkDir, "damaged")))
}
