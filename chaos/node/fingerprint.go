//go:build linux

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// Fingerprint describes a machine, as far as a drill could leave something behind: a text for each key of each
// class. It leaves out what changes by itself, so that two fingerprints can be compared literally.
type Fingerprint struct {
	Schema     string                           `json:"schema"`
	Boot       string                           `json:"boot"`
	Items      map[step.Class]map[string]string `json:"items"`
	Unmeasured map[step.Class]string            `json:"unmeasured,omitempty"` // and why: a tool is missing
}

const fingerprintSchema = "gpuaas.fingerprint/v1"

// agentUnit is always included: most drills affect it.
const agentUnit = "gpuaas-node-agent.service"

// classes lists the classes and the functions that read them.
func classes() map[step.Class]func(context.Context, step.Scope) (map[string]string, error) {
	return map[step.Class]func(context.Context, step.Scope) (map[string]string, error){
		step.ClassNft: nftItems, step.ClassNet: netItems, step.ClassFile: fileItems, step.ClassMount: mountItems,
		step.ClassUnit: unitItems, step.ClassAccount: accountItems, step.ClassSocket: socketItems, step.ClassDisk: diskItems,
		step.ClassProcess: processItems, step.ClassOwn: ownItems,
	}
}

// ReadFingerprint reads the machine's state. A class that cannot be read is reported as unmeasured, which equals no
// other result.
func ReadFingerprint(ctx context.Context, scope step.Scope) (Fingerprint, error) {
	clock, err := HostClock()
	if err != nil {
		return Fingerprint{}, err
	}
	f := Fingerprint{Schema: fingerprintSchema, Boot: clock.Boot, Items: map[step.Class]map[string]string{},
		Unmeasured: map[step.Class]string{}}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards f's maps
	for class, look := range classes() {
		wg.Go(func() {
			items, err := look(ctx, scope)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				f.Unmeasured[class] = err.Error()
				return
			}
			f.Items[class] = items
		})
	}
	wg.Wait()
	return f, ctx.Err()
}

// Diff returns every difference, in the order of classes and keys; an allowed one has the reason.
func Diff(before, after Fingerprint, scope step.Scope, allowed []step.Allow) []step.Residue {
	var all []step.Residue
	for _, class := range step.Classes() {
		a, b := before.Items[class], after.Items[class]
		if was, is := before.Unmeasured[class], after.Unmeasured[class]; is != "" || was != "" {
			if was != is { // a class that was unmeasured for the same reason before is no difference
				all = append(all, step.Residue{Class: class, Key: "unmeasured", Before: was, After: is})
			}
			continue
		}
		keys := slices.Sorted(maps.Keys(a))
		for k := range b {
			if _, both := a[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			if a[k] != b[k] && !(class == step.ClassDisk && near(k, a[k], b[k], scope)) {
				all = append(all, step.Residue{Class: class, Key: k, Before: a[k], After: b[k]})
			}
		}
	}
	for i, r := range all {
		for _, a := range allowed {
			if a.Covers(r) {
				all[i].Allowed = a.Why
				break
			}
		}
	}
	return all
}

// Tolerances for free space: logs are written during a drill.
const (
	tolerateBytes  = 64 << 20
	tolerateInodes = 4096
)

func near(key, a, b string, scope step.Scope) bool {
	if a == "" || b == "" {
		return false
	}
	x, err := strconv.ParseInt(a, 10, 64)
	y, err2 := strconv.ParseInt(b, 10, 64)
	limit := cmp.Or(scope.Bytes, tolerateBytes)
	if strings.HasSuffix(key, " inodes") {
		if limit = scope.Inodes; limit == 0 {
			limit = tolerateInodes
		}
	}
	return err == nil && err2 == nil && max(x-y, y-x) <= limit
}

// put adds a text under a key that may be taken: the second one gets key#2.
func put(m map[string]string, key, value string) {
	k := key
	for n := 2; m[k] != ""; n++ {
		k = fmt.Sprintf("%s#%d", key, n)
	}
	m[k] = value
}

// ListResidue lists everything on this machine that bears this tool's name, without knowledge of any drill.
func ListResidue(ctx context.Context) ([]step.Residue, error) {
	items, err := ownItems(ctx, step.Scope{})
	var all []step.Residue
	for _, k := range slices.Sorted(maps.Keys(items)) {
		all = append(all, step.Residue{Class: step.ClassOwn, Key: k, After: items[k]})
	}
	return all, err
}
