package platform

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform/store"
)

// heard returns heartbeats of the given sources, two seconds apart, oldest first: other hosts, or variations of
// "a".
func heard(words ...string) []store.Source {
	t0 := time.Date(2026, 5, 25, 12, 0, 0, 0, time.UTC)
	sources := map[string]store.Source{
		"a":        {InstanceID: "a", BootID: "1", Serial: "s1", Remote: "10.0.0.1"},
		"b":        {InstanceID: "b", BootID: "9", Serial: "s1", Remote: "10.0.0.2"},
		"c":        {InstanceID: "c", BootID: "9", Serial: "s1", Remote: "10.0.0.3"},
		"rebooted": {InstanceID: "a", BootID: "2", Serial: "s1", Remote: "10.0.0.1"},
		"again":    {InstanceID: "a", BootID: "3", Serial: "s1", Remote: "10.0.0.1"},
		"renewed":  {InstanceID: "a", BootID: "1", Serial: "s2", Remote: "10.0.0.1"},
		"next":     {InstanceID: "a", BootID: "1", Serial: "s2", Remote: "10.0.0.1", Generation: 2},
		"before":   {InstanceID: "a", BootID: "1", Serial: "s1", Remote: "10.0.0.1", Generation: 1},
		"unread":   {InstanceID: "a", BootID: "1", Serial: "s2", Remote: "10.0.0.1"}, // its generation could not be read
		"moved":    {InstanceID: "a", BootID: "1", Serial: "s1", Remote: "10.0.0.7"},
		// of the running machine, and renewed since
		"copy": {InstanceID: "a", BootID: "1", Serial: "s2", Remote: "10.0.0.7"},
	}
	list := make([]store.Source, len(words))
	for i, w := range words {
		s := sources[w]
		s.At = t0.Add(time.Duration(2*i) * time.Second)
		list[i] = s
	}
	return list
}

// provedBy runs the heartbeats through the detection one by one, and returns the number of the one that proved the
// clone, 0 for none.
func provedBy(words ...string) int {
	all := heard(words...)
	var last []store.Source // newest first
	for i, s := range all {
		if clone(last, s) != nil {
			return i + 1
		}
		last = append([]store.Source{s}, last...)
	}
	return 0
}

func TestClone(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []string
		want  int
	}{
		{"one host", []string{"a", "a", "a"}, 0},
		{"reimaged", []string{"a", "a", "b", "b", "b"}, 0},
		{"reimaged twice", []string{"a", "b", "b", "c", "c"}, 0},
		{"rebooted", []string{"a", "rebooted", "rebooted"}, 0},
		{"rebooted twice", []string{"a", "rebooted", "again", "again"}, 0},
		{"renewed its certificate", []string{"a", "renewed", "renewed"}, 0},
		{"fell back to the certificate before", []string{"a", "renewed", "a", "a"}, 0},
		{"two ways out", []string{"a", "moved", "a", "moved"}, 0},
		{"two hosts", []string{"a", "b", "a"}, 3},
		{"two hosts, unevenly", []string{"a", "a", "a", "b", "b", "a"}, 6},
		{"two hosts with one machine id", []string{"a", "rebooted", "a", "rebooted", "a"}, 5},
		{"two copies of a running machine", []string{"a", "copy", "a", "copy", "copy", "a"}, 6},
		{"two copies behind one address, of which one has renewed", []string{"before", "next", "before", "next", "before"},
			5},
		{"two copies, of which none has renewed, are one host with two ways out",
			[]string{"a", "moved", "a", "moved", "a", "moved"}, 0},
		{"renewed, with connections from before", []string{"a", "renewed", "a", "renewed", "a", "renewed"}, 0},
		{"a message held up while it renewed", []string{"before", "next", "before", "next", "next"}, 0},
		{"went back to its earlier credentials", []string{"before", "next", "next", "before", "before"}, 0},
		{"a generation that cannot be read at times", []string{"next", "unread", "next", "unread", "next", "unread"}, 0},
		{"a third", []string{"a", "b", "c", "a"}, 4},
		{"a message held up while it rebooted", []string{"a", "rebooted", "a", "rebooted", "rebooted", "rebooted"}, 0},
		{"a message held up while it renewed and moved", []string{"a", "copy", "a", "copy", "copy"}, 0},
	} {
		if got := provedBy(c.words...); got != c.want {
			t.Errorf("%s: given away by heartbeat %d, want %d", c.name, got, c.want)
		}
	}
}
