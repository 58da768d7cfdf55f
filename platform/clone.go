package platform

import "github.com/gpuaas/gpuaasctl/platform/store"

// clone returns the source that shows that now is a second host with the same identity, nil when nothing does. last
// is the heartbeats before, newest first, within the staleness window.
//
// One change proves nothing: a node that is imaged anew has another instance, one that boots another boot id, one that
// renews another certificate, and the old one never speaks again. Two hosts alternate: now's own source was heard
// before, and another one since. A message that was only held up on its way does not count: it is older, by the
// sender's own clock, than what overtook it. Of two clocks that differ, one is ahead and gives them away.
func clone(last []store.Source, now store.Source) *store.Source {
	var other *store.Source
	for i, s := range last {
		switch {
		case conflict(s, now):
			if other == nil && later(now, s) {
				other = &last[i]
			}
		case other != nil:
			return other
		}
	}
	return nil
}

// later reports whether a was sent after b, by their own clocks where both say.
func later(a, b store.Source) bool {
	if a.NodeTime.IsZero() || b.NodeTime.IsZero() {
		return a.At.After(b.At)
	}
	return a.NodeTime.After(b.NodeTime)
}

// conflict reports whether two heartbeats are of two hosts, or of one before and after a change that happens once: of
// its image, of its boot, of its certificate and its address together (two copies of a running machine agree in all
// else).
func conflict(a, b store.Source) bool {
	return a.InstanceID != b.InstanceID || a.BootID != "" && b.BootID != "" && a.BootID != b.BootID || a.Serial != b.Serial && a.Remote != b.Remote
}
