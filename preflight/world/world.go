// Package world tells what facts together show about a party: the agent, the gateway, a session, an identity, the
// platform, the operator's own machine. Every hop and the verdict ask here, so that all of them know the same.
//
// More than 25 files: each party, each kind of evidence and each group of doubts has its own, above what it needs.
package world

import (
	"reflect"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// KindWorld is the kind of a World document.
const KindWorld = "PreflightWorld"

// World is what the facts of one walk show about its parties. It is computed from facts alone: no hop is judged for it.
type World struct {
	diag.Head

	Operator Operator `json:"operator"`
	Platform Platform `json:"platform"`
	Ingress  Ingress  `json:"ingress"`
	Identity Identity `json:"identity"`
	Node     Node     `json:"node"`
	Agent    Agent    `json:"agent"`
	Gateway  Gateway  `json:"gateway"`
	Session  Session  `json:"session"`
	Workload Workload `json:"workload"`
	GPUs     GPUs     `json:"gpus"`
}

// Of returns the world of a case.
func Of(c *hop.Case) *World {
	return &World{
		Head: diag.NewHead(KindWorld), Operator: operatorOf(c), Platform: platformOf(c), Ingress: ingressOf(c),
		Identity: identityOf(c), Node: nodeOf(c), Agent: agentOf(c), Gateway: gatewayOf(c), Session: sessionOf(c),
		Workload: workloadOf(c), GPUs: gpusOf(c),
	}
}

// Property is one property of a party.
type Property struct {
	Party, Name string // as in JSON
	Known
}

// Properties returns all properties, in the order of the struct.
func (w *World) Properties() (all []Property) {
	v := reflect.ValueOf(w).Elem()
	for i := range v.NumField() {
		party := v.Field(i)
		if v.Type().Field(i).Anonymous {
			continue
		}
		for k := range party.NumField() {
			all = append(all, Property{jsonName(v.Type().Field(i)), jsonName(party.Type().Field(k)),
				party.Field(k).Interface().(Known)})
		}
	}
	return all
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
