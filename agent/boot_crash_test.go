package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/update"
	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/durable"
	"github.com/gpuaas/gpuaasctl/internal/durable/durabletest"
)

// model is a platform: it uses the messages of package wire, and behaves like the reference platform, on maps.
type model struct {
	events   map[uint64]wire.Event
	mark     uint64
	rollout  *wire.Rollout
	running  wire.Build
	task     *wire.Task // to be handed out
	finished bool
	lost     int // events that the node reported as lost
}

// newModel returns a platform on which an operator has ordered the task.
func newModel(task *wire.Task) *model {
	return &model{events: map[uint64]wire.Event{}, task: task,
		rollout: &wire.Rollout{ID: task.ID, State: wire.RolloutPending, Target: crashTarget}}
}

func (m *model) said(r wire.Rollout) {
	if m.rollout == nil || wire.RolloutRank(r.State) > wire.RolloutRank(m.rollout.State) {
		m.rollout = &r
	}
}

// heartbeat answers a boot report.
func (m *model) heartbeat(b wire.BootReport) heartbeatReply {
	m.running = b.Running
	if b.Rollout != nil {
		m.said(*b.Rollout)
	} else if m.rollout != nil && !wire.RolloutFinal(m.rollout.State) && b.Running != m.rollout.Target {
		m.finished = false // the node does not know of it: the task is handed out again
	}
	w := heartbeatReply{replayFrom: m.mark + 1}
	w.Running = &m.running
	if m.rollout != nil {
		r := *m.rollout
		w.Snapshots = []wire.Snapshot{{TaskID: r.ID, Type: wire.TaskSelfUpdate, Rollout: &r}}
	}
	return w
}

func (m *model) post(batch []wire.Event) uint64 {
	if first := batch[0].Seq; first > m.mark+1 {
		m.lost += int(first - m.mark - 1)
		m.mark = first - 1
	}
	for _, e := range batch {
		if _, ok := m.events[e.Seq]; !ok {
			m.events[e.Seq] = e
		}
		var u wire.UpdateEvent
		if json.Unmarshal(e.Detail, &u) == nil && u.Rollout != nil {
			m.said(*u.Rollout)
		}
	}
	for m.events[m.mark+1].Seq != 0 {
		m.mark++
	}
	return m.mark
}

// reported counts how often each step of a rollout was reported, by its decision and by its key.
func (m *model) reported() (decisions, byKey map[string]int) {
	decisions, byKey = map[string]int{}, map[string]int{}
	for _, e := range m.events {
		var u wire.UpdateEvent
		if json.Unmarshal(e.Detail, &u) == nil && u.Key != "" {
			if byKey[u.Key]++; byKey[u.Key] == 1 {
				decisions[u.Decision]++
			}
		}
	}
	return decisions, byKey
}

// node is a machine on which the agent is killed and restarted.
type node struct {
	t        testing.TB
	disk     durable.Dir
	killer   *durabletest.Killer
	platform *model
	keys     wire.Verifiers
	env      string
	boot     string

	targets  int // starts of the target
	records  []Decision
	launched wire.Build
}

func (n *node) Record(d Decision) error { n.records = append(n.records, d); return nil }

// startedAs is exec's panic value: this process is another build now.
type startedAs struct{ sha string }

var (
	crashPackage = wire.Build{Version: "v1", SHA256: hex.EncodeToString(bytes.Repeat([]byte{1}, 32))}
	crashKey     = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	crashKeys    = wire.Verifiers{"k": crashKey.Public().(ed25519.PublicKey)}
	crashProgram = elfProgram()
	crashTarget  = wire.Build{Version: "v2", SHA256: hexOf(crashProgram)}
)

func hexOf(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }

// elfProgram is the header of a program for this machine.
func elfProgram() []byte {
	machine := map[string]byte{"amd64": 62, "arm64": 183}[goruntime.GOARCH]
	return append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00"+string([]byte{machine})+"\x00"),
		bytes.Repeat([]byte("agent"), 100)...)
}

func crashTask() *wire.Task {
	payload, _ := json.Marshal(wire.SelfUpdatePayload{Version: crashTarget.Version, SHA256: crashTarget.SHA256,
		Verifiers: ""})
	t := &wire.Task{ID: "task-1", NodeID: "n1", Type: wire.TaskSelfUpdate, Payload: payload, CorrelationID: "corr-1",
		QueuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	t.Sign("k", crashKey)
	return t
}

// life runs one process until it dies, becomes another one, or has nothing more to do, in which case idle is true.
func (n *node) life(self wire.Build, launched bool) (idle bool, next *startedAs, killed string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case durabletest.Killed:
			killed = p.Change
		case startedAs:
			next = &p
		default:
			panic(p)
		}
	}()
	b := openBoot(n.disk, slog.New(slog.DiscardHandler), n)
	b.boot, b.exec = n.boot, func(path string, _, _ []string) error {
		if path == "/installed" {
			panic(startedAs{})
		}
		panic(startedAs{filepath.Base(filepath.Dir(path))})
	}
	b.launcher, b.Running = "/installed", self
	if !launched {
		b.launch(self, n.keys)
	}
	n.launched = b.Running
	if b.Running.SHA256 == crashTarget.SHA256 {
		n.targets++
		if !b.out.Has(`"decision":"update"`) && !delivered(n.platform, "update") {
			n.t.Errorf("the target runs, and its evidence is nowhere")
		}
	}
	return n.work(b), nil, ""
}

func delivered(m *model, decision string) bool { d, _ := m.reported(); return d[decision] > 0 }

// work is a process's life after its start: the handshake, the interrupted update, the task, the soak.
func (n *node) work(b *Boot) bool {
	beat := func() { b.apply(n.platform.heartbeat(b.keeper.Journal().Report(b.Running, b.out.Next()))) }
	send := func() {
		for batch := b.out.Batch(); len(batch) > 0; batch = b.out.Batch() {
			if err := b.out.Acked(n.platform.post(batch)); err != nil {
				n.t.Error(err)
			}
		}
	}
	beat()
	if err := b.packages.Prune(b.keeper.Journal().NeededDigests()); err != nil {
		n.t.Error(err)
	}
	send()
	here := update.Node{ID: "n1", Keys: n.keys}
	j := b.keeper.Journal()
	task := n.platform.task
	if r := j.Active(); r != nil && wire.RolloutRank(r.State) < wire.RolloutRank(wire.RolloutActivating) {
		task = &r.Task
	} else if task == nil || n.platform.finished || j.Rollout != nil {
		task = nil
	}
	if task != nil {
		n.platform.finished = true
		a, refusal := j.Accept(*task, here, time.Now())
		if refusal != nil {
			n.t.Fatalf("refused: %v", refusal)
		}
		b.step(func(j update.Journal) update.Journal {
			if j.Rollout != nil && j.Rollout.ID == task.ID {
				return j
			}
			return j.Begin(a, time.Now())
		})
		get := func(_ context.Context, _ string, take func(io.Reader) error) error {
			return take(bytes.NewReader(crashProgram))
		}
		if err := errors.Join(b.prepare(context.Background(), get, a), b.activate(n.env, a.Payload)); err != nil {
			n.t.Fatal(err)
		}
		send()
		b.step(update.Journal.Ended)
		b.restart = "update"
		n.t.Fatal(b.Reexec())
	}
	for _, probe := range [...]string{wire.ProbeTaskWait, wire.ProbeNoop} {
		b.step(func(j update.Journal) update.Journal { return j.Observe(probe, true, "", time.Now()) })
	}
	b.step(func(j update.Journal) update.Journal { // its time is over
		return j.Observe(wire.ProbeHeartbeat, true, "", time.Now().Add(time.Hour))
	})
	send()
	beat()
	send()
	return true
}

// live runs the machine until it is idle: processes follow each other as systemd and exec start them.
func (n *node) live(onKill func(killed string)) {
	self, launched := crashPackage, false
	for range 20 {
		idle, next, killed := n.life(self, launched)
		self, launched = crashPackage, false
		switch {
		case idle:
			return
		case next != nil && next.sha != "":
			self, launched = wire.Build{Version: "v2", SHA256: next.sha}, true
		case killed != "":
			onKill(killed)
		}
	}
	n.t.Fatal("the machine does not come to rest")
}

func newNode(t testing.TB, d durable.Dir, k *durabletest.Killer, dir string) *node {
	return &node{t: t, disk: d, killer: k, platform: newModel(crashTask()), keys: crashKeys,
		env: filepath.Join(dir, "agent.env"), boot: "boot-1"}
}

// phase returns which of the five cases a machine is in.
func phase(d durable.Dir) string {
	var j update.Journal
	text, err := d.Read("update.json")
	switch {
	case err != nil || json.Unmarshal(text, &j) != nil || j.Rollout == nil:
		return "1 fresh"
	case wire.RolloutRank(j.Rollout.State) < wire.RolloutRank(wire.RolloutActivating):
		return "2 before activate"
	case j.Rollout.State == wire.RolloutActivating:
		return "3 in activate"
	case j.Rollout.State == wire.RolloutSoaking:
		return "4 in soak"
	}
	return "5 after converge"
}

// fates are the things that happen to the platform at the crash.
var fates = map[string]func(*node){
	"intact": func(*node) {},
	"lost": func(n *node) { // a new database: the sender of the task orders it again
		n.platform = newModel(n.platform.task)
	},
	"ahead": func(n *node) { // it knows more events than this node's restored disk
		for range 5 {
			n.platform.mark++
			n.platform.events[n.platform.mark] = wire.Event{Seq: n.platform.mark, Kind: "of another life"}
		}
	},
}

// check checks what must hold at the end in every case.
func (n *node) check(cell string) {
	n.t.Helper()
	fail := func(format string, args ...any) {
		n.t.Helper()
		n.t.Errorf("%s: "+format, append([]any{cell}, args...)...)
	}
	j, err := update.Open(n.disk, func(update.Note) error { return nil })
	if err != nil {
		fail("journal: %v", err)
		return
	}
	if names, err := n.disk.List("."); err != nil || slices.Contains(names, "update.json.damaged") {
		fail("the journal was damaged")
	}
	r := j.Journal().Rollout
	if r == nil || r.State != wire.RolloutConverged || j.Journal().Committed() != crashTarget ||
		n.launched != crashTarget {
		fail("it ends with rollout %+v, build %s runs", r, n.launched.Version)
		return
	}
	if n.platform.rollout == nil || n.platform.rollout.State != wire.RolloutConverged ||
		n.platform.running != crashTarget {
		fail("the platform believes %+v", n.platform.rollout)
	}
	decisions, byKey := n.platform.reported()
	for _, d := range []string{"accept", "update", "activate", "commit", "converge"} {
		if decisions[d] != 1 {
			fail("the platform got %d reports of %q: %v", decisions[d], d, decisions)
		}
		if !slices.ContainsFunc(n.records, func(got Decision) bool {
			return got.What == d && got.Facts["package_sha256"] == crashTarget.SHA256
		}) {
			fail("the record lacks %q", d)
		}
	}
	for key, times := range byKey {
		if times > 2 { // after a crash between a delivery and its receipt a step may be reported again under another number
			fail("step %s was reported %d times", key, times)
		}
	}
	if n.platform.lost != 0 {
		fail("%d events are gone", n.platform.lost)
	}
}

// TestKilledAtEveryWrite kills the agent before every change of its disk, and in the middle of every write, from
// its first start until an update has converged, with a platform that is intact, has lost everything, or is ahead
// of the node; and then once more at one of the following changes.
func TestKilledAtEveryWrite(t *testing.T) {
	fresh := func() *node {
		d, k := durabletest.NewDir()
		return newNode(t, d, k, t.TempDir())
	}
	whole := fresh()
	whole.live(func(string) { t.Fatal("killed") })
	whole.check("undisturbed")
	changes := whole.killer.Changes
	cells := map[string]int{}
	for fate, strike := range fates {
		for at := 1; at <= changes; at++ {
			for i, second := range []int{0, 1, 3, 7, 15} {
				if testing.Short() && i != at%5 { // the race detector's run: the code is the same
					continue
				}
				n := fresh()
				n.killer.At = at
				struck := ""
				n.live(func(change string) {
					if n.killer.At = 0; struck != "" {
						return
					}
					struck = change
					cells[phase(n.disk)+", platform "+fate]++
					strike(n)
					if second > 0 {
						n.killer.At = n.killer.Changes + second
					}
				})
				if struck != "" {
					n.check(fmt.Sprintf("platform %s, killed at %s of %d, then %d changes later", fate, struck, changes, second))
				}
				if t.Failed() {
					return
				}
			}
		}
	}
	total := 0
	for _, c := range slices.Sorted(maps.Keys(cells)) {
		t.Logf("%-32s %5d cells", c, cells[c])
		total += cells[c]
	}
	t.Logf("%d changes from the first start to the converged update, %d cells", changes, total)
	for _, c := range []string{"1 fresh", "2 before activate", "3 in activate", "4 in soak", "5 after converge"} {
		for fate := range fates {
			if cells[c+", platform "+fate] == 0 {
				t.Errorf("no cell of case %s, platform %s", c, fate)
			}
		}
	}
}

// TestKilledOnARealDisk does the same with real files.
func TestKilledOnARealDisk(t *testing.T) {
	for at := 1; at <= 148; at += 7 {
		dir, k := t.TempDir(), &durabletest.Killer{At: at}
		n := newNode(t, durable.Dir{FS: durable.Host{Before: k.Kill}, Root: dir}, k, dir)
		n.live(func(string) { k.At = 0 })
		n.check(fmt.Sprintf("killed at change %d", at))
		if _, err := os.Stat(filepath.Join(dir, "update.json")); err != nil {
			t.Error(err)
		}
	}
}
