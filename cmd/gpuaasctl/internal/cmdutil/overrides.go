package cmdutil

import (
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaasctl/profile"
)

// override is a flag that overrides one value of the profile.
type override struct{ Flag, key, usage, heading string }

const (
	headEndpoints = "Endpoints (over the profile's)"
	headAccess    = "Access"
	HeadSubject   = "What to look at"
	HeadWalk      = "How to walk"
	HeadOutput    = "What to write"
)

// Overrides lists these flags, in the order of the help. The names are the runbook's.
var Overrides = [...]override{
	{"api-base", "api_base", "`URL` of the control plane API", headEndpoints},
	{"terminal-base", "terminal_base", "`URL` of the browser-facing terminal gateway", headEndpoints},
	{"api-resolve-address", "api_resolve_address", "`IP` of the API, in place of a look-up here", headEndpoints},
	{"terminal-resolve-address", "terminal_resolve_address", "`IP` of the terminal gateway, in place of a look-up here",
		headEndpoints},
	{"app-resolve-address", "app_resolve_address", "`IP` of product URLs, in place of a look-up here", headEndpoints},
	{"node-runtime-api-url", "node_runtime_api_url", "`URL` of the API that the node should use", headEndpoints},
	{"node-runtime-resolve-address", "node_runtime_resolve_address", "`IP` that the node should get for it",
		headEndpoints},
	{"node-terminal-url", "node_terminal_url", "`URL` of the node-facing terminal listener that the node should use",
		headEndpoints},
	{"node-terminal-resolve-address", "node_terminal_resolve_address", "`IP` that the node should get for it",
		headEndpoints},
	{"node-user", "ssh.user", "login `NAME` on the node", headAccess},
	{"token-file", "auth.token_file", "`FILE` with the operator's API token, private to its owner (or /dev/stdin)",
		headAccess},
	{"edge-cookie-file", "auth.edge_cookie_file", "`FILE` with the cookie that a login edge asks of browsers", headAccess},
}

// ProfileFlags is the chosen profile and what overrides it.
type ProfileFlags struct {
	Name   string
	Values [len(Overrides)]string
}

// Add adds --profile and the overriding flags to cmd.
func (f *ProfileFlags) Add(a *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	f.AddName(a, cmd)
	for i, o := range Overrides {
		flags.StringVar(&f.Values[i], o.Flag, "", o.usage)
		Group(flags, o.heading, o.Flag)
	}
}

// AddName adds only --profile to cmd.
func (f *ProfileFlags) AddName(a *App, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Name, "profile", "", "profile by `NAME`, or the path of its file")
	CompleteFunc(cmd, "profile", a.ProfileNames)
}

// Load reads the chosen profile, sets Name to its name, and applies the environment and the given flags.
func (f *ProfileFlags) Load(a *App, cmd *cobra.Command) (profile.Profile, profile.Origins, error) {
	given := map[string]profile.Flag{}
	for i, o := range Overrides {
		if fl := cmd.Flags().Lookup(o.Flag); fl != nil && fl.Changed {
			given[o.key] = profile.Flag{Name: "--" + o.Flag, Value: f.Values[i]}
		}
	}
	if f.Name == "" && flagGiven(cmd, "profile") {
		return profile.Profile{}, nil, Usagef("--profile: it is empty; %s", a.NoProfile())
	}
	_, ownAPI := given["api_base"]
	f.Name = a.ProfileSource(f.Name, ownAPI)
	p, origins, err := profile.Load(f.Name, profile.Sources{Flags: given, Env: a.Env, Dir: profile.Dir(a.Env)})
	return p, origins, AsUsage(err)
}
