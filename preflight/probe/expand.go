package probe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
)

// EnvNames are the names that a request may use as ${NAME}: they stand for what the running agent was started with.
// None of them is a secret.
var EnvNames = [...]string{"GPUAAS_API_URL", "GPUAAS_TERMINAL_API_URL", "GPUAAS_NODE_ID"}

var envRef = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Expand returns req with every ${NAME} in Target, Resolve, ServerName, Body, NodeID and Header replaced from env.
// The error names the first name that is not in EnvNames or has no value.
func Expand(req diag.Request, env map[string]string) (diag.Request, error) {
	var missing error
	expand := func(s string) string {
		return envRef.ReplaceAllStringFunc(s, func(ref string) string {
			name := envRef.FindStringSubmatch(ref)[1]
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
