package recorder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/agent/recorder"
	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/diag/record"
	"github.com/gpuaas/gpuaasctl/tools/testkit/wait"
)

func read(t *testing.T, dir string) diag.RecordFacts {
	t.Helper()
	f, err := record.Read(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestWriteAndReadBack: entries are read back by a later process, which continues the numbering.
func TestWriteAndReadBack(t *testing.T) {
	dir := t.TempDir()
	cfg := recorder.Config{Dir: filepath.Join(dir, "disk"), Mirror: filepath.Join(dir, "mirror"), Boot: "b-1", NodeID: "n",
		Agent: "v"}
	retry := func(r *recorder.Recorder, attempt int) {
		t.Helper()
		if err := r.Write(diag.RecordEntry{Reason: diag.RecAPIUnreachable, About: "heartbeat", Decision: "retry",
			Attempt: attempt, CeilingMS: 500}); err != nil {
			t.Fatal(err)
		}
	}
	r := recorder.Open(cfg)
	if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "agent", Decision: "start"}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		retry(r, i+1)
	}
	if s := r.Summary(); s["state"] != "ok" || s["last_reason"] != "api_unreachable" || s["coalesced"] != "4" ||
		s["newest_seq"] != "4" {
		t.Errorf("summary %v", s)
	}
	r.Close()
	r = recorder.Open(cfg)
	retry(r, 1)
	r.Close()
	f := read(t, cfg.Dir)
	if len(f.Entries) != 3 || f.Entries[2].Count != 6 || f.Entries[2].Attempt != 1 || f.Entries[1].Count != 0 ||
		len(f.Damaged) != 0 || f.Missing != 0 {
		t.Errorf("entries %+v, damaged %v, %d missing", f.Entries, f.Damaged, f.Missing)
	}
	if len(f.Pinned) != 3 || f.Slots != record.Slots+record.PinnedSlots {
		t.Errorf("pinned %+v", f.Pinned)
	}
}

// TestAFailureAfterAContactIsAnother: an outage after a good contact gets its own slot and first time, however
// soon it follows; repeated failures of another loop continue their count.
func TestAFailureAfterAContactIsAnother(t *testing.T) {
	dir := t.TempDir()
	r := recorder.Open(recorder.Config{Dir: dir, Boot: "b-1", NodeID: "n", Agent: "v"})
	fail := func(about string) {
		t.Helper()
		if err := r.Write(diag.RecordEntry{Reason: diag.RecAPIUnreachable, About: about, Decision: "retry", Attempt: 1,
			CeilingMS: 500}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		wait.NextMillisecond()
		for range 3 {
			fail("heartbeat")
			fail("task_result")
		}
		if err := r.Write(diag.RecordEntry{Reason: diag.RecProcessAlive, About: "heartbeat",
			Decision: record.DecisionContact}); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	told := map[string]int64{}
	for _, e := range read(t, dir).Entries {
		if e.Count > 0 {
			told[e.About+" "+e.First.Format("15:04:05.000000000")] = e.Count
		} else {
			told[e.About+" once"]++
		}
	}
	outages := 0
	for what := range told {
		if strings.HasPrefix(what, "heartbeat ") && what != "heartbeat once" {
			outages++
		}
	}
	if outages != 2 {
		t.Errorf("two outages were made, %d are reported: %v", outages, told)
	}
}

// TestEachLostResultIsNamed: two results that the platform does not take are two entries, each with its task, and the
// retries of each are counted.
func TestEachLostResultIsNamed(t *testing.T) {
	dir := t.TempDir()
	r := recorder.Open(recorder.Config{Dir: dir, Boot: "b-1", NodeID: "n", Agent: "v"})
	for range 3 {
		for _, task := range []string{"task-1", "task-2"} {
			if err := r.Write(diag.RecordEntry{Reason: diag.RecTaskResultPostFailed, About: "task_result", Decision: "retry",
				Attempt: 1, CeilingMS: 500, TaskID: task, Status: 503}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Close()
	counted := map[string]int64{}
	for _, e := range read(t, dir).Entries {
		counted[e.TaskID] = max(counted[e.TaskID], e.Count)
	}
	if counted["task-1"] != 3 || counted["task-2"] != 3 {
		t.Errorf("the record has %v", counted)
	}
}
