package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// EnvNames are the names that a request may use as ${NAME}: they stand for what the running agent was started with.
// None of them is a secret.
var EnvNames = [...]string{"GPUAAS_API_URL", "GPUAAS_TERMINAL_API_URL", "GPUAAS_NODE_ID"}

// Expand returns req with every ${NAME} in Target, Resolve, ServerName, Body, NodeID and Header replaced from env.
// The error names the first name that is not in EnvNames or has no value.
func Expand(req diag.Request, env map[string]string) (diag.Request, error) {
	var missing error
	expand := func(s string) string {
		return replaceRefs(s, func(name string) string {
			v := env[name]
			if missing == nil {
				switch {
				case !slices.Contains(EnvNames[:], name):
					missing = fmt.Errorf("%s is not a name that requests may use", name)
				case v == "":
					missing = fmt.Errorf("%s is not set in the agent's environment", name)
				}
			}
			return v
		})
	}
	for _, field := range []*string{&req.Target, &req.Resolve, &req.ServerName, &req.Body, &req.NodeID} {
		*field = expand(*field)
	}
	if req.Header != nil {
		req.Header = maps.Clone(req.Header)
		for k, v := range req.Header {
			req.Header[k] = expand(v)
		}
	}
	return req, missing
}

// replaceRefs returns s with every ${NAME} replaced. What is not one stays.
func replaceRefs(s string, value func(name string) string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if closed && validName(name) {
			out.WriteString(value(name))
			s = after
			continue
		}
		out.WriteString("${")
		s = rest
	}
}
