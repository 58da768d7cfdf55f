package history

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// walk returns a finished report of node, n minutes after noon.
func walk(node string, n int, outcome diag.Outcome) *diag.Report {
	at := diag.At(noon.Add(time.Duration(n) * time.Minute))
	return &diag.Report{
		Head: diag.NewHead(diag.KindPreflight),
		Run: diag.Run{ID: fmt.Sprintf("run-%s-%08d", node, n), StartedAt: at, EndedAt: at, DurationMS: 12,
			EndedBy: diag.EndedCompleted},
		Subject: diag.Subject{NodeID: node, AllocationID: "a", EnvironmentProfile: "lab"},
		Plan:    diag.Plan{Hops: []diag.PlannedHop{{ID: diag.HopNodeReadiness, Steps: []string{"disk"}}}},
		Verdict: diag.Verdict{Outcome: outcome},
	}
}

// opened opens or creates a history, retrying as often as needed: on a busy disk that takes longer than Open's limit.
func opened(ctx context.Context, path string) (s *Store, err error) {
	for {
		if s, err = Open(ctx, path); ctx.Err() != nil || (!busy(err) && !errors.Is(err, context.DeadlineExceeded)) {
			return s, err
		}
	}
}

// here opens a history in a new folder.
func here(t *testing.T) *Store {
	t.Helper()
	s, err := opened(t.Context(), filepath.Join(t.TempDir(), "gpuaasctl", "reports.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func save(t *testing.T, s *Store, r *diag.Report) {
	t.Helper()
	good := r.Verdict.Outcome == diag.OutcomePass
	if err := s.Save(t.Context(), r, good, true); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s *Store, f Filter) []Entry {
	t.Helper()
	l, err := s.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKeepAndRead(t *testing.T) {
	s := here(t)
	first, failed := walk("n1", 1, diag.OutcomePass), walk("n1", 2, diag.OutcomeFail)
	failed.Verdict.Blame = &diag.Blame{Hop: diag.HopNodeReadiness, Signal: diag.SigDiskFull}
	for _, r := range []*diag.Report{first, failed, walk("n2", 3, diag.OutcomePass), failed} { // failed is saved twice
		save(t, s, r)
	}
	l := list(t, s, Filter{Node: "n1"})
	if len(l) != 2 || l[0].RunID != failed.Run.ID || l[0].BlameSignal != diag.SigDiskFull || l[0].Good || !l[1].Good ||
		!l[1].EndedAt.Equal(first.Run.EndedAt.Time) {
		t.Errorf("%+v", l)
	}
	r, err := s.Get(t.Context(), "run-n1-00000001")
	if err != nil || r.Run != first.Run {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.Get(t.Context(), "00002"); err != nil || r.Run.ID != failed.Run.ID {
		t.Errorf("by its end: %+v, %v", r, err)
	}
	if _, err := s.Get(t.Context(), "run-n1-"); err == nil || !strings.Contains(err.Error(), "may be several") {
		t.Errorf("by what two have: %v", err)
	}
	for _, id := range []string{"", "x", "%"} {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, ErrNone) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestGood: only good walks of the same subject are baselines, those of the same shape first, then whole ones.
func TestGood(t *testing.T) {
	s := here(t)
	of := SubjectOf(walk("n1", 0, "").Subject)
	if good, err := s.Good(t.Context(), of, "x", 5); err != nil || len(good) != 0 {
		t.Fatalf("of nothing: %v, %v", good, err)
	}
	for n := range 4 {
		save(t, s, walk("n1", n, diag.OutcomePass))
	}
	partial := walk("n1", 9, diag.OutcomePass)
	partial.Plan.Hops[0].Skip = "in --skip"
	if err := s.Save(t.Context(), partial, true, false); err != nil {
		t.Fatal(err)
	}
	save(t, s, walk("n1", 10, diag.OutcomeFail))
	save(t, s, walk("n2", 11, diag.OutcomePass))
	for _, c := range []struct {
		shape, newest string
		n             int
	}{
		{Shape(walk("n1", 0, "").Plan), "run-n1-00000003", 3},
		{Shape(partial.Plan), partial.Run.ID, 1},
		{"another", "run-n1-00000003", 3},
	} {
		good, err := s.Good(t.Context(), of, c.shape, 3)
		if err != nil || len(good) != c.n || good[0].Run.ID != c.newest {
			t.Errorf("%q: %d reports, %v", c.shape, len(good), err)
		}
	}
	if r, err := s.LastGood(t.Context(), of); err != nil || r == nil || !r.Run.EndedAt.Equal(noon.Add(3*time.Minute)) {
		t.Errorf("the last whole walk that passed: %+v, %v", r, err)
	}
	if _, err := s.Accept(t.Context(), "run-n1-00000003", false); err != nil {
		t.Fatal(err)
	}
	if good, _ := s.Good(t.Context(), of, Shape(walk("n1", 0, "").Plan), 3); good[0].Run.ID != "run-n1-00000002" {
		t.Errorf("one that was taken out is the baseline: %s", good[0].Run.ID)
	}
	if _, err := s.Accept(t.Context(), "run-n1-00000010", true); err == nil {
		t.Error("a walk that failed was accepted")
	}
}

// TestBounds: no subject has more reports than its limit, and its last good one is kept whatever follows.
func TestBounds(t *testing.T) {
	s := here(t)
	save(t, s, walk("n1", 0, diag.OutcomePass))
	for n := range PerSubject + 10 {
		save(t, s, walk("n1", n+1, diag.OutcomeFail))
	}
	save(t, s, walk("n2", 0, diag.OutcomeFail))
	l := list(t, s, Filter{Node: "n1"})
	if len(l) != PerSubject+1 || l[len(l)-1].RunID != "run-n1-00000000" || l[0].RunID != "run-n1-00000060" {
		t.Errorf("%d reports, from %s to %s", len(l), l[len(l)-1].RunID, l[0].RunID)
	}
	n, _, err := s.Prune(t.Context(), Limits{PerSubject: 1, Bytes: TotalBytes})
	if l := list(t, s, Filter{}); err != nil || n != PerSubject-1 || len(l) != 3 {
		t.Errorf("forgot %d, %d are left, %v", n, len(l), err)
	}
	n, _, err = s.Prune(t.Context(), Limits{PerSubject: 9, Bytes: TotalBytes, Before: diag.At(noon.Add(time.Hour))})
	if l := list(t, s, Filter{}); err != nil || n != 1 || len(l) != 2 || l[1].RunID != "run-n1-00000000" {
		t.Errorf("forgot %d by age, left %+v, %v", n, l, err)
	}
}

// TestBytes: over all subjects, the oldest reports are deleted until the rest fits, and the file becomes smaller.
func TestBytes(t *testing.T) {
	s := here(t)
	for n := range 20 {
		r := walk("n"+strconv.Itoa(n), n, diag.OutcomeFail)
		noise := make([]byte, 100_000) // does not pack
		_, _ = rand.Read(noise)
		r.Verdict.Owner = hex.EncodeToString(noise)
		if n == 0 {
			r.Verdict.Outcome = diag.OutcomePass
		}
		save(t, s, r)
	}
	size := func() int64 {
		if _, err := s.db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	_, freed, err := s.Prune(t.Context(), Limits{PerSubject: PerSubject, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	l := list(t, s, Filter{})
	for _, e := range l[:len(l)-1] { // the last one is the oldest, and good
		total += e.Bytes
	}
	if total > 1<<20 || total < 1<<19 || l[len(l)-1].NodeID != "n0" || l[0].NodeID != "n19" {
		t.Errorf("%d bytes of %+v", total, l)
	}
	if after := size(); before-after < freed/2 {
		t.Errorf("the file had %d bytes and has %d, where %d were freed", before, after, freed)
	}
}

// TestNoSecret: a canary in every secret of a report is not stored, compressed or not.
func TestNoSecret(t *testing.T) {
	tier.NeedsHost(t)
	s := here(t)
	canary := diag.NewSecret("canary-5ecret")
	r := walk("n1", 1, diag.OutcomePass)
	r.Facts = []diag.Fact{{
		ID: "a/b", Request: diag.Request{Token: canary, Cookie: canary, Query: canary},
		HTTP: &diag.HTTPFacts{Kept: canary, Whole: map[string]diag.Secret{"url": canary}},
	}}
	save(t, s, r)
	var packed []byte
	if err := s.db.QueryRowContext(t.Context(), "SELECT report FROM reports").Scan(&packed); err != nil {
		t.Fatal(err)
	}
	back, err := unpack(packed)
	if err != nil || back.Facts[0].Request.Token.Reveal() != diag.Redacted {
		t.Fatalf("%v, %v", back, err)
	}
	text, err := exec.Command("sh", "-c", "cat \"$0\"*", s.path).Output()
	if err != nil || bytes.Contains(text, []byte("5ecret")) || bytes.Contains(packed, []byte("5ecret")) {
		t.Errorf("a secret is in the file, or: %v", err)
	}
	var plain bytes.Buffer
	if again, err := pack(back); err != nil || len(again) == 0 {
		t.Fatal(err)
	}
	fmt.Fprintf(&plain, "%+v", back)
	if strings.Contains(plain.String(), "5ecret") {
		t.Error("a secret came back")
	}
}

// TestModes: no other user can read the history, including SQLite's side files.
func TestModes(t *testing.T) {
	s := here(t)
	save(t, s, walk("n1", 1, diag.OutcomePass))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s%s: %v, %v", s.path, suffix, info, err)
		}
	}
	if info, err := os.Stat(filepath.Dir(s.path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
}

// TestNotOurs: a file that is not a database, a truncated one, and one of a newer version are refused and left
// unchanged.
func TestNotOurs(t *testing.T) {
	made := here(t)
	save(t, made, walk("n1", 1, diag.OutcomePass))
	newer := here(t)
	if _, err := newer.db.ExecContext(t.Context(), "PRAGMA user_version = 9"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{made, newer} {
		if _, err := s.db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := read(made.path)
	flipped := bytes.Clone(whole)
	for i := 100; i < 4096; i++ {
		flipped[i] ^= 0xff
	}
	for _, c := range []struct {
		name, why string
		text      []byte
	}{
		{"garbage", "not a database", []byte(strings.Repeat("garbage ", 500))},
		{"a first page of nonsense", "malformed", flipped},
		{"cut short", "", whole[:len(whole)/2]},
		{"newer", "a newer gpuaasctl wrote it", read(newer.path)},
	} {
		path := filepath.Join(t.TempDir(), "reports.db")
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path)
		if err == nil { // some damage is only found when the data is read
			_, err = s.Good(t.Context(), SubjectOf(walk("n1", 0, "").Subject), "x", 3)
			err = errors.Join(err, s.Save(t.Context(), walk("n1", 2, diag.OutcomePass), true, true), s.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
		if damaged := c.name != "newer"; Damaged(err) != damaged {
			t.Errorf("%s: damaged %v: %v", c.name, Damaged(err), err)
		}
		if c.why != "" && !bytes.Equal(read(path), c.text) {
			t.Errorf("%s: the file was changed", c.name)
		}
	}
}

// TestOneDamagedReport: a damaged report is skipped as a baseline, and is an error when it is read by id.
func TestOneDamagedReport(t *testing.T) {
	s := here(t)
	save(t, s, walk("n1", 1, diag.OutcomePass))
	save(t, s, walk("n1", 2, diag.OutcomePass))
	if _, err := s.db.ExecContext(t.Context(),
		"UPDATE reports SET report = x'00' WHERE run_id = 'run-n1-00000002'"); err != nil {
		t.Fatal(err)
	}
	good, err := s.Good(t.Context(), SubjectOf(walk("n1", 0, "").Subject), Shape(walk("n1", 0, "").Plan), 3)
	if err != nil || len(good) != 1 || good[0].Run.ID != "run-n1-00000001" {
		t.Errorf("%v, %v", good, err)
	}
	_, err = s.Get(t.Context(), "run-n1-00000002")
	if !errors.As(err, new(*InputError)) || !strings.Contains(err.Error(), "run-n1-00000002 is damaged: unpack") {
		t.Errorf("%v", err)
	}
}

// TestBusy: if another process locks the history, Open fails instead of waiting.
func TestBusy(t *testing.T) {
	s := here(t)
	other, err := sql.Open("sqlite", "file:"+s.path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := s.Save(ctx, walk("n1", 1, diag.OutcomePass), true, true); err == nil {
		t.Error("written, though another has it")
	}
	t.Logf("after %s of %s", time.Since(began), busyTimeout)
}

func TestPath(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		env  func(string) string
		root bool
		want string
	}{
		{env("XDG_STATE_HOME", "/s", "HOME", "/h"), false, "/s/gpuaasctl/reports.db"},
		{env("XDG_STATE_HOME", "/s", "HOME", "/root"), true, "/s/gpuaasctl/reports.db"},
		{env("XDG_STATE_HOME", "relative", "HOME", "/h"), false, "/h/.local/state/gpuaasctl/reports.db"},
		{env("HOME", "/h"), false, "/h/.local/state/gpuaasctl/reports.db"},
		{env("HOME", "/root"), true, "/var/lib/gpuaasctl/reports.db"},
		{env(), false, ""},
	} {
		if got, err := Path(c.env, c.root); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
}

// TestAForeignHistoryIsNotOpened: nothing is made or written where another user could have put it. XDG_STATE_HOME may
// be a folder of all users.
func TestAForeignHistoryIsNotOpened(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	const stranger = 65534
	for name, c := range map[string]struct {
		plant func(shared, elsewhere string) error
		want  string // "" if the history is opened
	}{
		"nothing": {func(string, string) error { return nil }, ""},
		"their folder": {func(shared, _ string) error {
			return errors.Join(os.Mkdir(shared+"/gpuaasctl", 0o755), os.Chown(shared+"/gpuaasctl", stranger, -1))
		}, "belongs to user 65534"},
		"their link in place of the folder": {func(shared, elsewhere string) error {
			link := shared + "/gpuaasctl"
			return errors.Join(os.Symlink(elsewhere, link), os.Lchown(link, stranger, -1))
		}, "belongs to user 65534"},
		"their file": {func(shared, _ string) error {
			dir := shared + "/gpuaasctl"
			return errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777|os.ModeSticky),
				os.WriteFile(dir+"/history.db", nil, 0o666), os.Chown(dir+"/history.db", stranger, -1))
		}, "belongs to user 65534"},
		"a link in place of the file": {func(shared, elsewhere string) error {
			dir := shared + "/gpuaasctl"
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink(elsewhere+"/made", dir+"/history.db"))
		}, "too many levels of symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			shared, elsewhere := t.TempDir(), t.TempDir()
			if err := errors.Join(os.Chmod(shared, 0o777|os.ModeSticky), c.plant(shared, elsewhere)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(shared, "gpuaasctl", "history.db")
			s, err := Open(t.Context(), path)
			if err == nil {
				err = s.Close()
			}
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if made, _ := os.ReadDir(elsewhere); len(made) > 0 {
				t.Errorf("made at the link's target: %v", made)
			}
			if _, err := os.Stat(path); err != nil {
				return
			}
			s, err = OpenExisting(t.Context(), path)
			if err == nil {
				err = s.Close()
			}
			if (err == nil) != (c.want == "") {
				t.Errorf("opened to read: %v, want %q", err, c.want)
			}
		})
	}
}
