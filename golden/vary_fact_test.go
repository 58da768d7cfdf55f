package golden

import (
	"hash/fnv"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// variation is one other world: apply changes a copy of a recording, whose facts it may replace but not modify.
type variation struct {
	name  string
	apply func(r *diag.Report)
	// unmeasured: the fact has no result afterwards
	unmeasured bool
}

// change is a variation of one fact: what its probe would also have met.
type change struct {
	name       string
	to         func(f *diag.Fact)
	unmeasured bool
}

// factVariations returns the variations of the fact at i, and of the fact together with its repeats. Each recording
// has a part of them, the larger one where a failure rests on the fact: facts of healthy hops are alike in all of them.
func factVariations(whole *diag.Report, i int) []variation {
	f := &whole.Facts[i]
	all := []variation{{name: "absent", unmeasured: true, apply: func(r *diag.Report) {
		r.Facts = append(append([]diag.Fact{}, r.Facts[:i]...), r.Facts[i+1:]...)
	}}}
	part := uint32(12)
	if decides(whole, f) {
		part = 2
	}
	add := func(part uint32, v variation) {
		if chosen(part, whole.Run.ID, f.ID, v.name) {
			all = append(all, v)
		}
	}
	runs := runsOf(whole, f.ID)
	for _, c := range changesOf(f) {
		add(part, variation{c.name, func(r *diag.Report) { replace(r, []int{i}, c.to) }, c.unmeasured})
		if len(runs) > 1 && runs[0] == i {
			add(part, variation{c.name + " in every run", func(r *diag.Report) { replace(r, runs, c.to) }, c.unmeasured})
		}
	}
	if strings.Contains(f.ID, "~") {
		return all
	}
	for _, v := range boundVariations(whole, i) {
		add(part, v)
	}
	for k, p := range pointsOf(copyOf(f)) {
		add(3*part, variation{name: p.name, apply: func(r *diag.Report) {
			replace(r, []int{i}, func(f *diag.Fact) { pointsOf(f)[k].change() })
		}})
	}
	return all
}

// decides reports whether a step's own fact is evidence of a failing hop, or fails itself.
func decides(r *diag.Report, f *diag.Fact) bool {
	return !strings.Contains(f.ID, "~") && (f.Failure != diag.OK ||
		slices.ContainsFunc(r.Hops, func(h diag.HopResult) bool {
			return h.Status != diag.StatusPass && slices.Contains(h.Evidence, f.ID)
		}))
}

// chosen draws one of n names, always the same.
func chosen(n uint32, name ...string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(name, " ")))
	return h.Sum32()>>8%n == 0
}

// repeat matches the end of the id of a repeated request.
var repeat = regexp.MustCompile(`^~[0-9]+$`)

// runsOf returns the indices of the facts that repeat the request of a fact and came as far, itself first.
func runsOf(r *diag.Report, id string) []int {
	var runs []int
	first := diag.FactsByID(r.Facts)[id]
	for i := range r.Facts {
		if rest, same := strings.CutPrefix(r.Facts[i].ID, id); same && (rest == "" || repeat.MatchString(rest)) &&
			(r.Facts[i].HTTP == nil) == (first.HTTP == nil) && (r.Facts[i].TLS == nil) == (first.TLS == nil) {
			runs = append(runs, i)
		}
	}
	return runs
}

// replace puts changed copies in the places of facts.
func replace(r *diag.Report, at []int, to func(*diag.Fact)) {
	r.Facts = append([]diag.Fact{}, r.Facts...)
	for _, i := range at {
		f := copyOf(&r.Facts[i])
		to(f)
		r.Facts[i] = *f
	}
}

func copyOf(f *diag.Fact) *diag.Fact {
	out := &diag.Fact{}
	*out = *f
	unshare(reflect.ValueOf(out).Elem())
	return out
}

// unshare replaces what v shares with its original by copies.
func unshare(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p := reflect.New(v.Type().Elem())
			p.Elem().Set(v.Elem())
			v.Set(p)
			unshare(p.Elem())
		}
	case reflect.Slice:
		if !v.IsNil() {
			s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(s, v)
			v.Set(s)
			for i := range s.Len() {
				unshare(s.Index(i))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			m := reflect.MakeMapWithSize(v.Type(), v.Len())
			for at := v.MapRange(); at.Next(); {
				m.SetMapIndex(at.Key(), at.Value())
			}
			v.Set(m)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				unshare(v.Field(i))
			}
		}
	}
}

// changesOf returns what the probe of a fact may meet by its kind.
func changesOf(f *diag.Fact) []change {
	all := []change{
		{"cancelled", func(f *diag.Fact) { endIn(f, diag.Cancelled, f.Phase, "") }, true},
		{"hollow", func(f *diag.Fact) { endIn(f, diag.OK, "", "") }, true},
		{"answered late", func(f *diag.Fact) { f.DurationMS += 30_000 }, false},
		{"at the other vantage", atOtherVantage, false},
		{"another input", func(f *diag.Fact) { f.Request.Method += "X" }, false},
	}
	if f.Failure != diag.OK {
		all = append(all, change{"without its failure", func(f *diag.Fact) {
			f.Failure, f.Phase, f.Errno, f.Detail = diag.OK, "", "", ""
			if f.HTTP != nil {
				f.HTTP.Status, f.HTTP.ErrorCode, f.HTTP.Page = 200, "", ""
				delete(f.HTTP.Fields, "error.code")
			}
		}, false})
	}
	if f.Vantage == hop.Node && f.Request.Op != diag.OpSSH {
		all = append(all, change{"lost with the login", func(f *diag.Fact) { endIn(f, diag.SSHTransport, "ssh", "") }, true})
	}
	if f.Request.Op == diag.OpSSH {
		all = append(all, loginChanges...)
	}
	if f.Request.Op.Row().Ladder {
		all = append(all, networkChanges...)
	}
	if f.TLS != nil {
		all = append(all, tlsChanges...)
	}
	if f.HTTP != nil {
		all = append(all, httpChanges...)
	}
	return all
}

func atOtherVantage(f *diag.Fact) {
	if f.Vantage == hop.Node {
		f.Vantage = hop.Operator
	} else {
		f.Vantage = hop.Node
	}
}

// endIn makes a fact one that ended in a phase: what follows is not measured.
func endIn(f *diag.Fact, failure diag.Failure, phase, errno string) {
	kept := *f
	*f = diag.Fact{
		ID: f.ID, Vantage: f.Vantage, Request: f.Request, Target: f.Target, At: f.At, OffsetMS: f.OffsetMS,
		DurationMS: f.DurationMS, AgentView: f.AgentView, OwnNetwork: f.OwnNetwork,
		Failure: failure, Phase: phase, Errno: errno,
	}
	switch phase {
	case "http", "ws", "pty":
		f.HTTP = kept.HTTP
		fallthrough
	case "mtls":
		f.TLS = kept.TLS
		fallthrough
	case "tls", "tcp", "banner", "host_key", "auth", "exec":
		f.DNS, f.TCP = kept.DNS, kept.TCP
	case "dns":
		f.DNS = kept.DNS
	}
	if phase == "exec" || phase == "auth" || phase == "host_key" {
		f.SSH = kept.SSH
	}
}

// ended returns a change to a fact that ended so.
func ended(failure diag.Failure, phase, errno string) change {
	return change{string(failure) + " in " + phase, func(f *diag.Fact) { endIn(f, failure, phase, errno) }, false}
}
