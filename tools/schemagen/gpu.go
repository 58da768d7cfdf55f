package main

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/gpu/policy"
)

// The schemas of a GPU policy's file and of a judgement.
const (
	policyID    = "urn:gpuaasctl:v1:gpu-policy"
	judgementID = "urn:gpuaasctl:v1:gpu-judgement"
)

// policyFile is a policy's file, whose rules package policy reads.
type policyFile struct {
	Version int           `yaml:"version"`
	Rules   []policy.Rule `yaml:"rules"`
}

// judgement is the document of gpu policy explain: a head, and the reply of gpuaas-gpu-policy.
type judgement struct {
	diag.Head
	Judgement policy.Judgement  `json:"judgement"`
	Shadow    *policy.Judgement `json:"shadow,omitempty"`
	Differs   bool              `json:"shadow_differs,omitempty"`
}

func gpuWords() map[reflect.Type][]any {
	return byType(
		closed(policy.Healths()...),
		closed(policy.AboutEvent, policy.AboutGPU, policy.AboutNode),
		closed(policy.Enforce, policy.Shadow))
}

func gpuReflector(tag string) *jsonschema.Reflector {
	words := gpuWords()
	return &jsonschema.Reflector{Anonymous: true, FieldNameTag: tag,
		Mapper: func(t reflect.Type) *jsonschema.Schema { return wordOf(t, words, t.Name()) }}
}

// generateGPUPolicy returns the schema of a policy's file, for editors. It cannot check whether a condition is CEL.
func generateGPUPolicy() ([]byte, error) {
	s := gpuReflector("yaml").Reflect(&policyFile{})
	s.ID, s.Title = policyID, "gpuaasctl GPU policy"
	s.Description = "Rules that make a health of events and samples of GPUs. The first rule about an event or a GPU " +
		"whose condition is true decides; of all of them the worst does."
	s.Definitions["Health"] = &jsonschema.Schema{Type: "string", Enum: gpuWords()[reflect.TypeFor[policy.Health]()]}
	file, rule := s.Definitions["policyFile"], s.Definitions["Rule"]
	if file == nil || rule == nil {
		return nil, fmt.Errorf("a policy's file has no rules")
	}
	rule.Required = slices.DeleteFunc(rule.Required, func(f string) bool { return f == "description" || f == "otherwise" })
	least, most, long := uint64(1), uint64(policy.MaxRules), uint64(policy.MaxCondition)
	version, _ := file.Properties.Get("version")
	version.Const = 1
	rules, _ := file.Properties.Get("rules")
	rules.MinItems, rules.MaxItems = &least, &most
	name, _ := rule.Properties.Get("name")
	name.Pattern = fmt.Sprintf("^[A-Za-z0-9_-]{1,%d}$", policy.MaxName)
	condition, _ := rule.Properties.Get("condition")
	condition.MinLength, condition.MaxLength = &least, &long
	condition.Description = "CEL over event, gpu and node: see docs/gpu.md"
	return encoded(s)
}

// generateGPUJudgement returns the published schema of a judgement.
func generateGPUJudgement() ([]byte, error) {
	s := gpuReflector("").Reflect(&judgement{})
	s.ID, s.Title = judgementID, "gpuaasctl GPU judgement"
	s.Description = "What a policy makes of the evidence about one node's GPUs, which rule decided, and what each came to."
	for t, words := range gpuWords() {
		s.Definitions[t.Name()] = &jsonschema.Schema{Type: "string", Enum: words}
	}
	return published(s, pin(s, []pinned{
		{"judgement", "apiVersion", []any{diag.APIVersion}}, {"judgement", "kind", []any{"GPUJudgement"}},
	}))
}
