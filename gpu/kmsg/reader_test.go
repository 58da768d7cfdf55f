package kmsg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const xid79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

// TestNothingFoundIsNotNothingRead: if there is no error, the coverage has the period that was read.
func TestNothingFoundIsNotNothingRead(t *testing.T) {
	k := &kernel{t: t, keeps: 100}
	r := NewReader(k.open(), "boot-1", Coverage{}, nil)
	if gaps := causes(r.coverage.Missing("boot-1", 0, time.Hour)); gaps != "not_yet" {
		t.Errorf("before the first read: %s", gaps)
	}
	for range 10 {
		k.print("eth0: link up")
	}
	if got := drained(t, r); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	c := r.Coverage()
	for _, tc := range []struct {
		boot     string
		from, to time.Duration
		want     string
	}{
		{"boot-1", 0, at(9), ""}, {"boot-1", at(3), at(4), ""}, {"boot-1", at(3), at(10), "not_yet"},
		{"boot-0", at(3), at(4), "rebooted"},
	} {
		if got := causes(c.Missing(tc.boot, tc.from, tc.to)); got != tc.want {
			t.Errorf("%s %s to %s: %q, want %q", tc.boot, tc.from, tc.to, got, tc.want)
		}
	}
	if c.Records != 10 || c.Next != 10 || c.Lost != 0 {
		t.Errorf("%+v", c)
	}
}

func causes(gaps []Gap) string {
	var all []string
	for _, g := range gaps {
		all = append(all, string(g.Cause))
	}
	return strings.Join(all, " ")
}

// TestUptimeExtendsWhatIsCovered: the coverage grows even while nothing is printed.
func TestUptimeExtendsWhatIsCovered(t *testing.T) {
	k := &kernel{t: t, keeps: 100}
	k.print("booted")
	now := 50 * time.Second
	r := NewReader(k.open(), "b", Coverage{}, func() time.Duration { return now })
	drained(t, r)
	if got := causes(r.coverage.Missing("b", 0, now)); got != "" {
		t.Errorf("missing: %s", got)
	}
	now = time.Minute
	if got := causes(r.coverage.Missing("b", 0, now)); got != "not_yet" {
		t.Errorf("after the last read: %s", got)
	}
}

// TestEmptyLogIsLookedAt: for an empty log, the coverage has the time of the last read.
func TestEmptyLogIsLookedAt(t *testing.T) {
	now := time.Hour
	k := &kernel{t: t, keeps: 100}
	r := NewReader(k.open(), "b", Coverage{}, func() time.Duration { return now })
	drained(t, r)
	if got := r.Coverage(); got.Until != now || got.Records != 0 || got.Blind != "" {
		t.Errorf("%+v, want until %s", got, now)
	}
}

// TestOverrunIsAGap: overwritten records are counted with their time, and later ones are read.
func TestOverrunIsAGap(t *testing.T) {
	k := &kernel{t: t, keeps: 4}
	r := NewReader(k.open(), "b", Coverage{}, nil)
	k.print("one")
	k.print("two")
	drained(t, r)
	for range 10 {
		k.print("flood")
	}
	k.print(xid79)
	got := drained(t, r)
	if len(got) != 1 || got[0].Code != 79 || got[0].Seq != 12 || got[0].First != at(12) {
		t.Fatalf("%+v", got)
	}
	want := []Gap{{Cause: Overrun, BootID: "b", From: at(1), To: at(9), Lost: 7}}
	if c := r.Coverage(); !slices.Equal(c.Gaps, want) || c.Lost != 7 || c.Records != 6 {
		t.Errorf("%+v, want %+v", c, want)
	}
	if got := causes(r.coverage.Missing("b", at(1), at(9))); got != "overrun" {
		t.Errorf("in the gap: %s", got)
	}
	if got := causes(r.coverage.Missing("b", at(9), at(12))); got != "" {
		t.Errorf("behind the gap: %s", got)
	}
}

// TestResume: another reader of the same boot neither repeats nor misses records; of another boot it reads all.
func TestResume(t *testing.T) {
	k := &kernel{t: t, keeps: 6}
	r := NewReader(k.open(), "b", Coverage{}, nil)
	k.print(xid79)
	k.print("x")
	if got := drained(t, r); len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	kept, err := json.Marshal(r.Coverage())
	if err != nil {
		t.Fatal(err)
	}
	var so Coverage
	if err := json.Unmarshal(kept, &so); err != nil || !reflect.DeepEqual(so, r.Coverage()) {
		t.Fatalf("%s: %+v, %v", kept, so, err)
	}

	r = NewReader(k.open(), "b", so, nil)
	if got := drained(t, r); len(got) != 0 || len(r.coverage.Gaps) != 0 {
		t.Errorf("the same log again: %+v, %+v", got, r.coverage)
	}
	k.print("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=a, b")
	if got := drained(t, r); len(got) != 1 || got[0].Code != 31 {
		t.Errorf("a new one: %+v", got)
	}

	so = r.Coverage()
	for range 9 {
		k.print("while nobody was reading")
	}
	r = NewReader(k.open(), "b", so, nil)
	drained(t, r)
	if c := r.Coverage(); causes(c.Gaps) != "overrun" || c.Lost != 3 {
		t.Errorf("overwritten between two readers: %+v", c)
	}

	so = r.Coverage()
	next := &kernel{t: t, keeps: 6}
	next.print(xid79)
	r = NewReader(next.open(), "b2", so, nil)
	if got := drained(t, r); len(got) != 1 || got[0].BootID != "b2" {
		t.Errorf("after a reboot: %+v", got)
	}
	c := r.Coverage()
	if causes(c.Gaps) != "overrun rebooted" || c.BootID != "b2" || c.Next != 1 || c.Gaps[1].To != Forever {
		t.Errorf("after a reboot: %+v", c)
	}
}

// TestLateStart: what a boot printed before the oldest remaining record was not read.
func TestLateStart(t *testing.T) {
	k := &kernel{t: t, keeps: 2}
	for range 5 {
		k.print("x")
	}
	r := NewReader(k.open(), "b", Coverage{}, nil)
	drained(t, r)
	if got := causes(r.coverage.Missing("b", 0, at(4))); got != "began" || r.coverage.Lost != 3 {
		t.Errorf("%s, %+v", got, r.coverage)
	}
	if got := causes(r.coverage.Missing("b", at(3), at(4))); got != "" {
		t.Errorf("%s", got)
	}
}

// TestSetBack: a virtual machine that was reset to a snapshot repeats record numbers with the same boot id. Its records
// are read again from then on, and the rest is a gap.
func TestSetBack(t *testing.T) {
	k := &kernel{t: t, keeps: 10}
	k.print("x")
	k.print("y")
	so := Coverage{BootID: "b", Next: 500, Records: 500, Until: time.Hour}
	r := NewReader(k.open(), "b", so, nil)
	drained(t, r)
	k.print(xid79)
	if got := drained(t, r); len(got) != 1 {
		t.Errorf("after it: %+v", got)
	}
	if got := causes(r.coverage.Missing("b", at(0), at(1))); got != "missing" {
		t.Errorf("%s, %+v", got, r.coverage)
	}
}

// TestBlind: a log that cannot be opened, or whose read fails, never counts as "no error".
func TestBlind(t *testing.T) {
	k := &kernel{t: t, keeps: 10}
	k.print("x")
	d := k.open()
	r := NewReader(d, "b", Coverage{}, nil)
	drained(t, r)
	so := NotCovered(r.Coverage(), syscall.EPERM)
	if got := causes(so.Missing("b", at(0), time.Hour)); got != "unreadable" {
		t.Errorf("%s", got)
	}
	if got := causes(NotCovered(Coverage{}, syscall.EPERM).Missing("b", 0, time.Hour)); got != "unreadable" {
		t.Errorf("never opened: %s", got)
	}
	k.print(xid79)
	b, err := r.Drain(1)
	if err != nil || b.CaughtUp || len(b.Events) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
	d.fail = syscall.EIO
	if _, err := r.Drain(0); !errors.Is(err, syscall.EIO) || r.coverage.Blind == "" {
		t.Errorf("%v, %+v", err, r.coverage)
	}
	if NewReader(k.open(), "b", r.Coverage(), nil).coverage.Blind != "" {
		t.Error("still blind after it was opened again")
	}
}

// TestWhatIsNoRecord: torn, foreign and endless records are counted, and do not stop the reader.
func TestWhatIsNoRecord(t *testing.T) {
	k := &kernel{t: t, keeps: 100}
	k.print("x")
	for _, raw := range []string{
		"", "\n", ";", "no record", "4,", "4,1", "4,1,2", "4,x,3,-;t\n", "-4,1,3,-;t\n", "4,1,99999999999999999999999,-;t\n",
		"4,1," + strings.Repeat("9", 19) + ",-;NVRM: Xid (PCI:0000:3b:00): 79, x\n",
		"4,1,3,-;" + strings.Repeat("x", maxRecord),
	} {
		if raw != "" {
			k.raw(raw)
		}
	}
	k.print(xid79)
	k.printAs("12", "-", strings.Replace(xid79, "3b", "5e", 1)) // a program, with the facility user
	d := k.open()
	r := NewReader(d, "b", Coverage{}, nil)
	d.fail = syscall.EINTR
	got := drained(t, r)
	if len(got) != 1 || got[0].Device != "0000:3b:00.0" {
		t.Errorf("%+v", got)
	}
	if c := r.Coverage(); c.Malformed != 11 || c.Foreign != 1 || c.Lost != 11 || causes(c.Gaps) != "missing" {
		t.Errorf("%+v", c)
	}
	if _, err := NewReader(strings.NewReader(""), "b", Coverage{}, nil).Drain(0); !errors.Is(err, io.EOF) {
		t.Errorf("an end: %v", err)
	}
	r = NewReader(idler{}, "b", Coverage{}, nil)
	if _, err := r.Drain(0); !errors.Is(err, io.ErrNoProgress) || r.Coverage().Blind == "" {
		t.Errorf("a source that gives nothing: %v, %+v", err, r.Coverage())
	}
}

type idler struct{}

func (idler) Read([]byte) (int, error) { return 0, nil }

// TestFragments: a line in parts is one line if all are of one task; several lines in one record are several.
func TestFragments(t *testing.T) {
	head, tail := xid79[:50], xid79[50:]
	const lost = "-1 GPU has fallen off the bus and is not responding to commands"
	const nowhere = "-1 fallen off the bus and is not responding to commands." // of no GPU that is known
	only79 := []string{"79 GPU has fallen off the bus."}
	begin, end := "NVRM: The NVIDIA GPU 0000:18:00.0", "NVRM: fallen off the bus and is not responding to commands."
	middle := "NVRM: (PCI ID: 10de:2901) installed in this system has"
	for name, tc := range map[string]struct {
		records [][2]string // flags and text
		want    []string    // code, name or text
	}{
		"in parts, new kernels":  {[][2]string{{"-,caller=T1", head}, {"c,caller=T1", tail}}, only79},
		"in parts, old kernels":  {[][2]string{{"c", head}, {"+", tail}}, only79},
		"a part of another task": {[][2]string{{"-,caller=T1", xid79}, {"c,caller=T2", " and more"}}, only79},
		"a line marked as a part": {
			[][2]string{{"-", xid79}, {"c", "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=n, x"}},
			[]string{"79 GPU has fallen off the bus.", "31 x"},
		},
		"another line between": {[][2]string{{"-", xid79}, {"-", "eth0: up"}, {"c", " and more"}}, only79},
		"lines of one record": {
			[][2]string{{"-", begin + "\n" + middle + "\n" + end + "\n"}},
			[]string{lost},
		},
		"lines of three records": {
			[][2]string{{"-", begin}, {"-", middle}, {"-", end}},
			[]string{lost},
		},
		"the end alone": {[][2]string{{"-", end}}, []string{nowhere}},
		"the end too late": {
			[][2]string{{"-", begin}, {"-", "NVRM: 1"}, {"-", "NVRM: 2"}, {"-", "NVRM: 3"}, {"-", "NVRM: 4"}, {"-", end}},
			[]string{nowhere},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &kernel{t: t, keeps: 100}
			for _, r := range tc.records {
				k.printAs("4", r[0], r[1])
			}
			var got []string
			for _, e := range drained(t, NewReader(k.open(), "b", Coverage{}, nil)) {
				got = append(got, fmt.Sprint(e.Code, " ", e.Text))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// flood prints n lines without storing them.
type flood struct {
	n, at int
	text  func(i int) string
	line  []byte
}

func (f *flood) Read(p []byte) (int, error) {
	if f.at == f.n {
		return 0, syscall.EAGAIN
	}
	f.line = append(strconv.AppendInt(append(f.line[:0], "4,"...), int64(f.at), 10), ',')
	f.line = append(append(strconv.AppendInt(f.line, int64(f.at), 10), ",-;"...), f.text(f.at)...)
	f.at++
	return copy(p, append(f.line, '\n')), nil
}

// TestFloods: 800,000 equal lines cost one event, and different lines a bounded number; each line is counted.
func TestFloods(t *testing.T) {
	const head = "NVRM: Xid (PCI:"
	for name, tc := range map[string]struct {
		n      int
		text   func(i int) string
		events int
	}{
		"equal": {800_000, func(int) string { return xid79 }, 1},
		"other text": {50_000, func(i int) string {
			return head + "0000:3b:00): 13, pid=7, name=a, " + strconv.Itoa(i)
		}, maxEvents + 1},
		"other device": {50_000, func(i int) string {
			return head + strconv.FormatInt(int64(i), 16) + ":3b:00): 13, pid=7, name=a, x"
		}, maxEvents + maxFolded},
		"in turns": {50_000, func(i int) string {
			return head + "0000:3b:0" + strconv.Itoa(i%8) + "): 13, pid=7, name=a, x"
		}, 8},
		"other lines": {50_000, func(i int) string { return "NVRM: nothing of note, number " + strconv.Itoa(i) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(&flood{n: tc.n, text: tc.text}, "b", Coverage{}, nil)
			before := heap()
			got := drained(t, r)
			grown := int64(heap()) - int64(before)
			var count uint64
			for _, e := range got {
				count += e.Count
			}
			count += r.coverage.Unkept
			if len(got) != tc.events || (tc.events > 0 && count != uint64(tc.n)) || r.coverage.Records != uint64(tc.n) {
				t.Errorf("%d events of %d lines, %d records", len(got), count, r.coverage.Records)
			}
			if name == "equal" && got[0].Last != time.Duration(tc.n-1)*time.Microsecond {
				t.Errorf("the last of them at %s", got[0].Last)
			}
			if grown > 4<<20 {
				t.Errorf("%d bytes more are in use", grown)
			}
			runtime.KeepAlive(r)
		})
	}
}

// heap returns the heap in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestGapsAreBounded: a log with repeated overruns has few gaps, and never counts a lost record as read.
func TestGapsAreBounded(t *testing.T) {
	k := &kernel{t: t, keeps: 4}
	r := NewReader(k.open(), "b", Coverage{}, nil)
	lost := map[uint64]bool{}
	for seq, round := uint64(0), 0; round < 100; round++ {
		n := uint64(4 + round%5)
		for range n {
			k.print("x")
		}
		for s := seq; s < seq+n-4; s++ {
			lost[s] = true
		}
		seq += n
		drained(t, r)
	}
	c := r.Coverage()
	if len(c.Gaps) > maxGaps || c.Lost != uint64(len(lost)) || len(lost) == 0 {
		t.Errorf("%d gaps, %d lost of %d", len(c.Gaps), c.Lost, len(lost))
	}
	for s := range lost {
		if len(c.Missing("b", at(s), at(s))) == 0 {
			t.Errorf("record %d was lost, and counts as read", s)
		}
	}
	for boot := range 40 { // and so do many boots
		r = NewReader(k.open(), fmt.Sprint("boot ", boot), r.Coverage(), nil)
		drained(t, r)
	}
	if n := len(r.Coverage().Gaps); n > maxGaps {
		t.Errorf("%d gaps after 40 boots", n)
	}
}

// TestThisMachine reads the kernel's own log, twice.
func TestThisMachine(t *testing.T) {
	boot, err := BootID()
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	d, err := Open(Path)
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	defer func() { _ = d.Close() }()
	r := NewReader(d, boot, Coverage{}, Uptime)
	b, err := r.Drain(100_000)
	for _, other := range []error{os.ErrPermission, syscall.EINVAL, syscall.EISDIR, io.EOF, io.ErrNoProgress} {
		if errors.Is(err, other) { // in a container it may be a file, or /dev/null
			t.Skipf("skipped: %s is no kernel log here: %v", Path, err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	c := r.Coverage()
	if c.Records == 0 {
		t.Skipf("skipped: the kernel log of this machine has no records")
	}
	if c.Malformed > 0 {
		t.Errorf("records that are none: %+v", c)
	}
	t.Logf("%d records, %d events; %+v", b.Records, len(b.Events), c)
	if b.CaughtUp && len(c.Missing(boot, c.Until, c.Until)) > 0 {
		t.Errorf("%+v: %+v", c, c.Missing(boot, c.Until, c.Until))
	}
	again, err := Open(Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	r = NewReader(again, boot, c, Uptime)
	if _, err := r.Drain(1); err != nil || r.Coverage().Next < c.Next {
		t.Errorf("it does not go on where it was: %+v after %+v, %v", r.Coverage(), c, err)
	}
	if _, err := Open(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a log that is not there: %v", err)
	}
}
