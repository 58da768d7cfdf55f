package main

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/profile"
)

// override is a flag that stands over one value of the profile.
type override struct{ flag, key, usage, heading string }

const (
	headEndpoints = "Endpoints (over the profile's)"
	headAccess    = "Access"
	headSubject   = "What to look at"
	headWalk      = "How to walk"
	headOutput    = "What to write"
)

// overrides is every such flag, in the order of the help. The names are the runbook's.
var overrides = [...]override{
	{"api-base", "api_base", "`URL` of the control plane API", headEndpoints},
	{"terminal-base", "terminal_base", "`URL` of the browser-facing terminal gateway", headEndpoints},
	{"api-resolve-address", "api_resolve_address", "`IP` of the API, in place of a look-up here", headEndpoints},
	{"terminal-resolve-address", "terminal_resolve_address", "`IP` of the terminal gateway, in place of a look-up here", headEndpoints},
	{"app-resolve-address", "app_resolve_address", "`IP` of product URLs, in place of a look-up here", headEndpoints},
	{"node-runtime-api-url", "node_runtime_api_url", "`URL` of the API that the node should use", headEndpoints},
	{"node-runtime-resolve-address", "node_runtime_resolve_address", "`IP` that the node should get for it", headEndpoints},
	{"node-terminal-url", "node_terminal_url", "`URL` of the node-facing terminal listener that the node should use", headEndpoints},
	{"node-terminal-resolve-address", "node_terminal_resolve_address", "`IP` that the node should get for it", headEndpoints},
	{"node-user", "ssh.user", "login `NAME` on the node", headAccess},
	{"token-file", "auth.token_file", "`FILE` with the operator's API token, private to its owner (or /dev/stdin)", headAccess},
	{"edge-cookie-file", "auth.edge_cookie_file", "`FILE` with the cookie that a login edge asks of browsers", headAccess},
}

// profileFlags is the chosen profile and what stands over it.
type profileFlags struct {
	name   string
	values [len(overrides)]string
}

// add puts --profile and the overriding flags on cmd.
func (f *profileFlags) add(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addName(a, cmd)
	for i, o := range overrides {
		flags.StringVar(&f.values[i], o.flag, "", o.usage)
		group(flags, o.heading, o.flag)
	}
}

// addName puts only --profile on cmd.
func (f *profileFlags) addName(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "profile", "", "profile by `NAME`, or the path of its file")
	completeFunc(cmd, "profile", a.profileNames)
}

// load reads the profile with the environment and the given flags over it.
func (f *profileFlags) load(a *app, cmd *cobra.Command) (profile.Profile, profile.Origins, error) {
	given := map[string]profile.Flag{}
	for i, o := range overrides {
		if fl := cmd.Flags().Lookup(o.flag); fl != nil && fl.Changed {
			given[o.key] = profile.Flag{Name: "--" + o.flag, Value: f.values[i]}
		}
	}
	p, origins, err := profile.Load(f.name, profile.Sources{Flags: given, Env: a.env, Dir: profile.Dir(a.env)})
	return p, origins, asUsage(err)
}
