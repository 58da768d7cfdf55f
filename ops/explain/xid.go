package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/gpu/xid"
)

// codeWord returns the word for an XID or SXID that is given as a number, if kind allows one.
func codeWord(kind, word string) string {
	kind = strings.ToLower(kind)
	if n, err := strconv.Atoi(word); err == nil && (kind == "xid" || kind == "sxid") {
		return fmt.Sprint(kind, "_", n)
	}
	return word
}

func xids() (all []Entry) {
	for _, r := range xid.Rows() {
		e := Entry{
			Kind: "xid", Word: fmt.Sprint("xid_", r.Code), Title: r.Title,
			Means: []string{r.Reason(), condemned(r.Condemns())}, Do: r.Steps(), See: []string{string(r.Class)},
			Measured: "by the GPU driver, in the kernel log: NVRM: Xid (PCI:...): " + strconv.Itoa(r.Code),
		}
		if against := r.Disputed(); len(against) > 0 {
			view := "gpuaasctl gpu xid explain " + strconv.Itoa(r.Code)
			e.Means = append(e.Means, "Sources disagree: "+view+" has each one's view.")
		}
		all = append(all, e)
	}
	return all
}

func sxids() (all []Entry) {
	for _, r := range xid.SwitchRows() {
		c := xid.ClassRowOf(r.Class)
		all = append(all, Entry{
			Kind: "sxid", Word: fmt.Sprint("sxid_", r.Code), Title: r.Symbol,
			Means: []string{c.Means + ".", condemned(c.Condemns)}, Do: c.Do, See: []string{string(r.Class)},
			Measured: "by the NVSwitch driver, in the kernel log: nvidia-nvswitchN: SXid (PCI:...): " + strconv.Itoa(r.Code),
		})
	}
	return all
}

// condemned describes a scope as a sentence.
func condemned(s xid.Scope) string {
	return cmp.Or(map[xid.Scope]string{
		xid.None: "New work goes on.", xid.GPU: "The GPU takes no new work.", xid.Node: "The node takes no new work.",
	}[s], "Whether the GPU takes new work is not decided by the code alone.")
}

func xidClasses() (all []Entry) {
	for _, c := range xid.Classes() {
		of := "A class of XIDs. "
		if c.SXID {
			of = "A class of SXIDs. "
		}
		all = append(all, Entry{
			Kind: "xid class", Word: string(c.Class), Title: c.Means, Means: []string{of + condemned(c.Condemns)}, Do: c.Do,
		})
	}
	return all
}

func xidSources() (all []Entry) {
	for _, s := range xid.Sources() {
		all = append(all, Entry{
			Kind: "xid source", Word: string(s.ID), Title: s.Title,
			Means: []string{"Edition: " + s.Edition + ".", "Address: " + s.Address + ".", "Licence: " + s.Licence + "."},
		})
	}
	return all
}
