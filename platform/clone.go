package platform

import "github.com/gpuaas/gpuaasctl/platform/store"

// How often the side that speaks has to change until two hosts are proven.
const (
	// switchesOfHosts: the first host, another, the first again. A host that was imaged anew never speaks as it was.
	switchesOfHosts = 2
	// switchesOfOne: two sources that say they are one host may be that host before and after a reboot, with one message
	// of before held up on its way (an agent has one heartbeat on its way at a time). A second return is a second host.
	switchesOfOne = 4
)

// clone returns the source that shows that now is a second host with the same identity, nil when nothing does. last
// is the heartbeats before, newest first, within the staleness window.
//
// One change proves nothing: a node that is imaged anew has another instance, one that boots another boot id, one that
// renews another certificate, and the old one never speaks again. Two hosts alternate. Their clocks are not asked.
func clone(last []store.Source, now store.Source) *store.Source {
	var other *store.Source
	switches, own := 0, true
	for i := range last {
		differs := conflict(last[i], now)
		if differs == own { // the side changes, going back in time
			own = !own
			switches++
		}
		if differs && other == nil {
			other = &last[i]
		}
		if other == nil {
			continue
		}
		if switches >= switchesOfOne || switches >= switchesOfHosts && other.InstanceID != now.InstanceID {
			return other
		}
	}
	return nil
}

// conflict reports whether two heartbeats are of two hosts, or of one before and after a change that happens once: of
// its image, of its boot, of its credentials (the generation is the host's word, the same on every connection), or of
// its certificate and its address together. Two live copies of a running machine agree in all that until one of them
// renews. Before, they are one host with two ways out, which is no clone; an address alone proves nothing.
func conflict(a, b store.Source) bool {
	return a.InstanceID != b.InstanceID || a.BootID != "" && b.BootID != "" && a.BootID != b.BootID ||
		a.Generation != 0 && b.Generation != 0 && a.Generation != b.Generation || a.Serial != b.Serial && a.Remote != b.Remote
}
