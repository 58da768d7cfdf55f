package profile

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// TestTemplateReadsBack: whatever the values are, the file parses and has them; with the # of its examples removed, it
// still parses.
func TestTemplateReadsBack(t *testing.T) {
	example := regexp.MustCompile(`(?m)^( *)#([a-z])`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z0-9/~.:#'"{}\[\]&*!|>%@ ,-]{1,20}|true|null|12|1e3|0x1f|~|no`)
		word := rapid.StringMatching(`[A-Za-z0-9/.:#%@,!\[\]][A-Za-z0-9/.:#%@,!\[\]-]{0,19}|true|null|12|1e3|0x1f|no`)
		of := func(label string, text *rapid.Generator[string]) string {
			if rapid.Bool().Draw(t, "has "+label) {
				return text.Draw(t, label)
			}
			return ""
		}
		p := Profile{Auth: Auth{TokenFile: of("token", text)},
			SSH: SSH{User: rapid.SampledFrom([]string{"", "root", "12", "true"}).Draw(t, "user")}}
		if rapid.Bool().Draw(t, "has API") {
			p.APIBase = "https://api.example:8443/x"
		}
		if id := of("node", word); id != "" {
			p.Nodes = map[string]Node{id: {Host: word.Draw(t, "host")}}
		}
		p.Kind = rapid.SampledFrom(append(Kinds(), "")).Draw(t, "kind")
		p.Trust.OperatorCA = of("CA", text)
		if page := of("health", rapid.SampledFrom([]string{"/healthz", "/api/health", Absent})); page != "" {
			p.Mapping.Paths = map[string]string{PathHealthz: page}
		}
		if rapid.Bool().Draw(t, "has sudo") {
			p.SSH.Sudo = new(bool)
		}
		if rapid.Bool().Draw(t, "has no agent") {
			p.Agent.Present = new(bool)
		}
		seen := map[string][]string{}
		for _, key := range []string{"kind", "api_base", "mapping.paths.healthz", "trust.operator_ca", "ssh.sudo",
			"agent.present", "nodes.n1"} {
			seen[key] = rapid.SliceOfN(rapid.StringN(0, 30, -1), 0, 2).Draw(t, "seen "+key)
		}
		data, err := Template("demo", Draft{Profile: p, Seen: seen})
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		read, _, err := parse("demo", data)
		if err != nil || read.APIBase != p.APIBase || read.Auth.TokenFile != p.Auth.TokenFile ||
			read.SSH.User != p.SSH.User || read.Kind != p.Kind || read.Trust.OperatorCA != p.Trust.OperatorCA ||
			read.Mapping.Paths[PathHealthz] != p.Mapping.Paths[PathHealthz] || read.Agent.Absent() != p.Agent.Absent() ||
			(read.SSH.Sudo == nil) != (p.SSH.Sudo == nil) || len(read.Nodes) != len(p.Nodes) {
			t.Fatalf("%v: %+v from\n%s", err, read, data)
		}
		for id, n := range p.Nodes {
			if read.Nodes[id].Host != n.Host {
				t.Fatalf("node %q: %+v from\n%s", id, read.Nodes, data)
			}
		}
		if n := len(example.FindAll(data, -1)); n < 8 {
			t.Fatalf("%d examples in\n%s", n, data)
		}
		whole := example.ReplaceAll(data, []byte("$1$2"))
		if read, _, err = parse("demo", whole); err != nil || !read.Chaos.Allow || read.APIResolveAddress == "" {
			t.Fatalf("%v in\n%s", err, whole)
		}
	})
}
