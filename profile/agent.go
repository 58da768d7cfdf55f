package profile

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// Agent is the agent on a node, and what it has there.
type Agent struct {
	// Present is false if no agent runs on this environment's nodes: then nothing that is about one is asked. Default:
	// true.
	Present *bool `yaml:"present,omitempty"`

	// How its process is found: a systemd unit, else a container, else the name of a process.
	Unit      string    `yaml:"unit,omitempty"` // default gpuaas-node-agent.service
	Container Container `yaml:"container,omitempty"`
	Process   string    `yaml:"process,omitempty"` // its name, or that of its program

	EnvFile string `yaml:"env_file,omitempty"` // default /etc/gpuaas/agent.env
	Dir     string `yaml:"dir,omitempty"`      // default /etc/gpuaas
	Binary  string `yaml:"binary,omitempty"`   // default /usr/local/bin/gpuaas-agent
	Record  string `yaml:"record,omitempty"`   // default /var/lib/gpuaas/diag
	// the agent's state file about GPUs; default /var/lib/gpuaas/agent/gpu.json
	GPUState string `yaml:"gpu_state,omitempty"`

	// What the agent itself knows. Defaults: the variables of gpuaas-agent.
	API      Setting `yaml:"api_url,omitempty"`
	Terminal Setting `yaml:"terminal_url,omitempty"`
	NodeID   Setting `yaml:"node_id,omitempty"`

	// Its credential: two files, or one that has both; and the CAs that it trusts: a file, a folder of files, or
	// SystemCAs. Defaults: cert.pem, key.pem and ca-bundle.crt in Dir.
	Cert     string `yaml:"cert,omitempty"`
	Key      string `yaml:"key,omitempty"`
	PEM      string `yaml:"pem,omitempty"`
	CABundle string `yaml:"ca_bundle,omitempty"`

	Log Log `yaml:"log,omitempty"` // where it logs; default: the journal of its unit

	// VersionCommand prints the version of an agent that is not gpuaas-agent, and is run on the node. Default: none.
	VersionCommand []string `yaml:"version_command,omitempty,flow"`

	settled bool // defaults are filled in, and what is absent is ""
}

// SystemCAs as Agent.CABundle are the machine's own root certificates.
const SystemCAs = diag.SystemCAs

// Container is a container of a runtime with Docker's API, such as Docker and Podman.
type Container struct {
	Name   string `yaml:"name"`
	Socket string `yaml:"socket,omitempty"` // default /run/docker.sock
}

const defaultSocket = "/run/docker.sock"

// Log is where an agent logs: the journal of a unit, or a file.
type Log struct {
	Unit string `yaml:"unit,omitempty"`
	File string `yaml:"file,omitempty"`
}

// Setting is how a value that the agent uses is known: the agent's environment, a value in a file on the node, or the
// profile itself.
type Setting struct {
	Env     string `yaml:"env,omitempty"`     // name of a variable of the agent's environment
	File    string `yaml:"file,omitempty"`    // YAML, JSON, TOML, INI or lines KEY=VALUE
	Key     string `yaml:"key,omitempty"`     // names and indices in it, joined by dots
	Literal string `yaml:"literal,omitempty"` // the value
}

// Absent reports whether the agent has no such value.
func (s Setting) Absent() bool { return s == Setting{} || s.Literal == Absent }

// Name names the setting in requests, facts and texts: a variable's name, FILE#KEY, or the value itself; Absent if
// there is none.
func (s Setting) Name() string {
	switch {
	case s.Absent():
		return Absent
	case s.File != "":
		return s.File + "#" + s.Key
	}
	return cmp.Or(s.Env, s.Literal)
}

// Ref is the setting's value as a request has it: the value itself, or ${NAME}, which the node fills in; "" if it is
// absent.
func (s Setting) Ref() string {
	switch {
	case s.Absent():
		return ""
	case s.Literal != "":
		return s.Literal
	}
	return "${" + s.Name() + "}"
}

// Bundle returns the path of the agent's CA bundle; "" for the machine's own root certificates.
func (a Agent) Bundle() string {
	if a.CABundle == SystemCAs {
		return ""
	}
	return a.CABundle
}

// Locator says where the agent's process is found: a unit's name, "container:NAME@SOCKET" or "process:NAME"; "" if the
// profile does not say.
func (a Agent) Locator() string { return cmp.Or(a.Unit, a.located()) }

// located is Locator for an agent that is no unit.
func (a Agent) located() string {
	switch {
	case a.Unit != "":
	case a.Container.Name != "":
		return "container:" + a.Container.Name + "@" + cmp.Or(a.Container.Socket, defaultSocket)
	case a.Process != "":
		return "process:" + a.Process
	}
	return ""
}

// OnNode returns where a node's helper finds the agent's process, and the environment of one that does not run; "" for
// what there is not.
func (a Agent) OnNode() (locator, envFile string) {
	if a.settled || a.Absent() {
		return a.Locator(), a.EnvFile
	}
	return cmp.Or(a.Locator(), DefaultAgentUnit), cmp.Or(a.EnvFile, DefaultAgentEnvFile)
}

// Absent reports whether the profile declares that no agent runs on its nodes.
func (a Agent) Absent() bool { return a.Present != nil && !*a.Present }

// IsOurs reports whether the profile declares that the agent is gpuaas-agent: binary is named gpuaas-agent or
// gpuaas-agent-*, unit is named gpuaas-*, and the version command is empty. Call it on a profile with defaults.
func (a Agent) IsOurs() bool {
	name := path.Base(a.Binary)
	return !a.Absent() && len(a.VersionCommand) == 0 && (name == ourAgent || strings.HasPrefix(name, ourAgent+"-")) &&
		strings.HasPrefix(a.Unit, "gpuaas-")
}

// withDefaults fills in what the reference platform's agent has, if the profile may describe that. An agent of another
// kind has what is set, and is absent if nothing is. What is set to Absent becomes "".
func (a Agent) withDefaults(kind string) Agent {
	if a.settled {
		return a
	}
	a.settled = true
	reference := kind == "" || kind == KindGPUaaS
	if !reference && !a.describes() {
		a.Present = new(bool)
	}
	if a.Absent() {
		return a
	}
	a.Cert, a.Key = cmp.Or(a.Cert, a.PEM), cmp.Or(a.Key, a.PEM)
	if reference {
		if a.located() == "" {
			a.Unit = cmp.Or(a.Unit, DefaultAgentUnit)
		}
		a.EnvFile = cmp.Or(a.EnvFile, DefaultAgentEnvFile)
		a.Dir = cmp.Or(a.Dir, DefaultAgentDir)
		a.Binary = cmp.Or(a.Binary, DefaultAgentBinary)
		a.Record = cmp.Or(a.Record, DefaultAgentRecord)
		a.GPUState = cmp.Or(a.GPUState, DefaultGPUState)
		a.API, a.Terminal = a.API.or(envAPI), a.Terminal.or(envTerminal)
		a.NodeID = a.NodeID.or(envNodeID)
	}
	a.Cert, a.Key = cmp.Or(a.Cert, a.inDir(certFile)), cmp.Or(a.Key, a.inDir(keyFile))
	a.CABundle = cmp.Or(a.CABundle, a.inDir(bundleFile))
	for _, v := range []*string{&a.Unit, &a.EnvFile, &a.Dir, &a.Binary, &a.Record, &a.GPUState, &a.Cert, &a.Key} {
		if *v == Absent {
			*v = ""
		}
	}
	return a
}

// or returns the setting, else the variable.
func (s Setting) or(env string) Setting {
	if s == (Setting{}) {
		return Setting{Env: env}
	}
	return s
}

// describes reports whether any key but present is set.
func (a Agent) describes() bool {
	set := a.VersionCommand != nil || a.Container != Container{} || a.Log != Log{} || a.API != Setting{} ||
		a.Terminal != Setting{} || a.NodeID != Setting{}
	return set || slices.ContainsFunc([]string{a.Unit, a.Process, a.EnvFile, a.Dir, a.Binary, a.Record, a.GPUState, a.Cert,
		a.Key, a.PEM, a.CABundle}, func(v string) bool { return v != "" })
}
