//go:build linux

package inprocess

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/sshtest"
	"github.com/gpuaas/gpuaasctl/profile"
)

// newKey is a key pair.
func newKey(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pub, key
}

// mistakes is the table. All rows share a world: each changes only the operator's own settings.
var mistakes = []mistake{
	// keys and agents
	{name: "no key", owner: access,
		profile: setSSH(func(_ *testing.T, s *profile.SSH) { s.Identity = "" })},
	{name: "the key file is not there", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.Identity = filepath.Join(t.TempDir(), "id") })},
	{name: "the key file cannot be read", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.Identity = t.TempDir() })},
	{name: "the key is encrypted, and no agent holds it", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.Identity = locked(t) })},
	{name: "the agent is gone", owner: access,
		profile: setSSH(func(_ *testing.T, s *profile.SSH) { s.Identity = "" }),
		config: func(t *testing.T, _ *world, c *vantage.NodeConfig) {
			c.AgentSocket = filepath.Join(t.TempDir(), "agent")
		}},
	{name: "the user of the login is another", profile: setSSH(func(_ *testing.T, s *profile.SSH) { s.User = "rooot" })},

	// host keys and settings
	{name: "no host key was accepted", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.KnownHosts = file(t, "") })},
	{name: "known_hosts is not there", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.KnownHosts = filepath.Join(t.TempDir(), "x") })},
	{name: "known_hosts cannot be read", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.KnownHosts = t.TempDir() })},
	{name: "known_hosts is garbage", owner: access,
		profile: setSSH(func(t *testing.T, s *profile.SSH) { s.KnownHosts = file(t, "a ssh-ed25519 %%%\n") })},
	{name: "ssh_config is of another program", owner: access, config: func(t *testing.T, _ *world, c *vantage.NodeConfig) {
		c.ConfigFile = file(t, "Host *\n  ProxyCommand tsh proxy ssh %h\n")
	}},
	{name: "the jump host is not there", owner: access, profile: setSSH(func(t *testing.T, s *profile.SSH) {
		host, port := free(t)
		s.Jump = net.JoinHostPort(host, strconv.Itoa(port))
	})},
	{name: "the jump host does not take the key", owner: access, profile: setSSH(func(t *testing.T, s *profile.SSH) {
		jump := sshtest.Start(t, sshtest.Config{})
		jump.Set(sshtest.RejectAuth)
		s.Jump, s.KnownHosts = "ops@"+jump.Addr, file(t, "")
	})},
	{name: "the node's name is not known here", owner: access, profile: setProfile(func(_ *testing.T, p *profile.Profile) {
		p.Nodes[nodeID] = profile.Node{Host: "node.invalid"}
	})},

	// tokens and cookies
	{name: "no token", token: "-", alloc: "-", passes: true}, // the hops that need one are skipped, by the plan
	{name: "another token", token: "not-a-token", owner: access},
	{name: "the token has expired", edge: says(http.StatusUnauthorized, "token_expired"), owner: access},
	{name: "the token is for another audience", edge: says(http.StatusForbidden, "wrong_audience"), owner: access},
	{name: "the token file is not there", refused: true, profile: setProfile(func(t *testing.T, p *profile.Profile) {
		p.Auth.TokenFile = filepath.Join(t.TempDir(), "token")
	})},
	{name: "no cookie, and the edge wants none", cookie: "-", passes: true},
	{name: "no cookie, and the edge asks for a login", cookie: "-", edge: redirects("https://login.invalid/login")},
	{name: "a cookie of yesterday at the terminal's edge", public: redirects("https://login.invalid/login"),
		owner: access},
	{name: "a proxy on the way wants a login", edge: says(http.StatusProxyAuthRequired, ""),
		public: says(http.StatusProxyAuthRequired, ""), owner: access},
	{name: "the operator's network wants a login", edge: answers(http.StatusNetworkAuthenticationRequired), owner: access},
	{name: "the token may mint no terminal token",
		edge: on("/terminal-token", says(http.StatusForbidden, "insufficient_scope")), owner: access},
	{name: "mapping.paths.healthz is of another platform", edge: on("/healthz", answers(http.StatusNotFound)),
		warns: true},
	{name: "the API is behind a redirect", edge: redirects("https://api.invalid/moved")},
	{name: "the API is behind a redirect without TLS", edge: redirects("http://api.invalid/moved")},

	// addresses
	{name: "api_resolve_address is a machine without the API",
		profile: setProfile(func(_ *testing.T, p *profile.Profile) { p.APIResolveAddress = "127.0.0.2" })},
	{name: "terminal_resolve_address is a machine without the gateway",
		profile: setProfile(func(_ *testing.T, p *profile.Profile) {
			p.TerminalResolveAddress = "127.0.0.2"
		})},
	{name: "api_base is an unknown name", profile: setProfile(func(_ *testing.T, p *profile.Profile) {
		p.APIBase = "https://api.invalid" + portOf(p.APIBase)
	})},
	{name: "terminal_base is an unknown name", profile: setProfile(func(_ *testing.T, p *profile.Profile) {
		p.TerminalBase = "https://terminal.invalid" + portOf(p.TerminalBase)
	})},
	{name: "api_base has another port", profile: setProfile(func(t *testing.T, p *profile.Profile) {
		host, port := free(t)
		p.APIBase = "https://" + net.JoinHostPort(host, strconv.Itoa(port))
	})},
	{name: "api_base has a path too much",
		profile: setProfile(func(_ *testing.T, p *profile.Profile) { p.APIBase += "/api" })},
	{name: "api_base and terminal_base are exchanged", profile: setProfile(func(_ *testing.T, p *profile.Profile) {
		p.APIBase, p.TerminalBase = p.TerminalBase, p.APIBase
	})},
	{name: "HTTPS_PROXY is set", env: [2]string{"HTTPS_PROXY", "http://127.0.0.1:1"}, passes: true},

	// certificates
	{name: "the operator's CA is not there", refused: true,
		profile: setProfile(func(t *testing.T, p *profile.Profile) {
			p.Trust.OperatorCA = filepath.Join(t.TempDir(), "ca")
		})},
	{name: "the operator's CA is garbage", refused: true,
		profile: setProfile(func(t *testing.T, p *profile.Profile) { p.Trust.OperatorCA = file(t, "no certificate") })},
	{name: "the operator's CA is another",
		profile: setProfile(func(t *testing.T, p *profile.Profile) { p.Trust.OperatorCA = otherCA(t) })},
	{name: "the nodes' CA is not there", refused: true,
		profile: setProfile(func(t *testing.T, p *profile.Profile) { p.Trust.NodeCA = filepath.Join(t.TempDir(), "ca") })},
	{name: "the nodes' CA is another", passes: true,
		profile: setProfile(func(t *testing.T, p *profile.Profile) { p.Trust.NodeCA = otherCA(t) })},

	// subjects
	{name: "an unknown node", node: "compute-node-77", owner: access},
	{name: "a node that the platform does not know, and its host is given", node: "compute-node-77", host: "127.0.0.1"},
	{name: "an unknown allocation", alloc: "alloc-77", owner: access},
	{name: "a node of another name at this host", node: "compute-node-02", owner: access,
		profile: setProfile(func(_ *testing.T, p *profile.Profile) {
			p.Nodes["compute-node-02"] = p.Nodes[nodeID]
		})},
	{name: "the host is a machine without an agent", profile: setProfile(func(t *testing.T, p *profile.Profile) {
		empty := filepath.Join(t.TempDir(), "gpuaas")
		p.Agent.Unit, p.Agent.Dir, p.Agent.EnvFile = "none.service", empty, filepath.Join(empty, "agent.env")
	})},

	// the profile's words about the node
	{name: "agent.unit is misspelt",
		profile: setProfile(func(_ *testing.T, p *profile.Profile) { p.Agent.Unit = "gpuaas-node-agnt.service" })},
	{name: "agent.binary is misspelt",
		profile: setProfile(func(_ *testing.T, p *profile.Profile) { p.Agent.Binary += "x" }), config: noHelper},
	// the running agent's own is read
	{name: "agent.env_file is misspelt",
		profile: setProfile(func(_ *testing.T, p *profile.Profile) { p.Agent.EnvFile += "x" }), passes: true},
	{name: "agent.dir is misspelt", profile: setProfile(func(_ *testing.T, p *profile.Profile) { p.Agent.Dir += "x" })},
	{name: "node_runtime_api_url is misspelt", profile: setProfile(func(_ *testing.T, p *profile.Profile) {
		p.NodeRuntimeAPIURL = "https://node-api.invalid" + portOf(p.NodeRuntimeAPIURL)
	})},
	{name: "node_terminal_url is misspelt", profile: setProfile(func(_ *testing.T, p *profile.Profile) {
		p.NodeTerminalURL = "https://node-terminal.invalid" + portOf(p.NodeTerminalURL)
	})},
}

// says answers every request to the API with an error.
func says(status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/healthz") {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		fmt.Fprintf(rw, `{"error":{"code":%q,"message":"no"}}`, code)
		return true
	}
}

// answers serves the same page for every request to the API.
func answers(status int) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "text/html")
		rw.WriteHeader(status)
		fmt.Fprint(rw, "<html><title>no</title></html>")
		return true
	}
}

// on handles requests for a path with that suffix, and leaves the rest to the platform.
func on(path string, answer func(http.ResponseWriter,
	*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, path) && answer(rw, r)
	}
}

// redirects redirects every request to the API.
func redirects(to string) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		http.Redirect(rw, r, to, http.StatusFound)
		return true
	}
}

// portOf returns ":PORT" of a URL.
func portOf(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Port() == "" {
		return ""
	}
	return ":" + u.Port()
}

// otherCA returns the file of a CA that has signed nothing in this world.
func otherCA(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
}

// noHelper removes the programs that this operator could push to the node.
func noHelper(_ *testing.T, _ *world, c *vantage.NodeConfig) { c.HelperDirs = nil }
