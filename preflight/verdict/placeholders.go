package verdict

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/reading"
	"github.com/gpuaas/gpuaasctl/preflight/world"
	"github.com/gpuaas/gpuaasctl/profile"
)

// ofFact returns values in which those of the deciding fact override the profile's.
func ofFact(f *diag.Fact, values diag.Values) diag.Values {
	return func(name string) string {
		switch {
		case f == nil:
		case f.Request.Op == diag.OpDisk && f.Request.Target == reading.RootFolder:
			if name == "full_dir" {
				return reading.RootFolder
			}
		case name == "binary" && f.Binary != nil && f.Binary.Path != "": // the program that the unit starts
			return f.Binary.Path
		case name == "address":
			return deniedAddress(f)
		}
		return values(name)
	}
}

// deniedAddress returns the address that a probe tried to reach; "" if it came to none.
func deniedAddress(f *diag.Fact) string {
	switch {
	case f.TCP != nil:
		return reading.RemoteIP(f)
	case f.DNS != nil:
		host, _, _ := net.SplitHostPort(f.DNS.Server)
		return host
	}
	return ""
}

// Placeholders returns this node's values for the tables' templates; each is computed once.
func Placeholders(c *hop.Case) diag.Values {
	found := map[string]string{}
	return func(name string) string {
		value, known := found[name]
		if find := PlaceholderRows[name]; !known && find != nil {
			value = find(c)
			found[name] = value
		}
		return value
	}
}

// PlaceholderRows has the function that computes this node's value of each placeholder.
var PlaceholderRows = map[string]func(c *hop.Case) string{
	"node_id":       func(c *hop.Case) string { return c.Subject.NodeID },
	"node_host":     func(c *hop.Case) string { return c.Subject.NodeHost },
	"allocation_id": func(c *hop.Case) string { return c.Subject.AllocationID },
	"profile":       func(c *hop.Case) string { return cmp.Or(c.Expected("profile_file"), c.Plan.Profile) },
	"preflight":     func(c *hop.Case) string { return hop.Pasted(c.Plan.Command, hop.WalkLine()) },
	"ssh":           hop.SSHOf,
	"exec":          execOf,
	"target":        targetOf,
	"known_as":      knownAs,
	"known_hosts":   knownHosts,
	"xid":           world.DecidingXID,

	"unit":              profiled("agent_unit"),
	"env_file":          profiled("agent_env_file"),
	"api_variable":      agentVariable(func(n profile.AgentNames) string { return n.API }),
	"terminal_variable": agentVariable(func(n profile.AgentNames) string { return n.Terminal }),
	"binary":            profiled("agent_binary"),
	"diag_dir":          profiled("agent_record"),
	"api_base":          profiled("api_base"),
	"api_url":           profiled("node_runtime_api_url"),
	"terminal_url":      profiled("node_terminal_url"),
	"ca_bundle":         agentFile(func(_, _, bundle string) string { return bundle }),
	"cert":              agentFile(func(cert, _, _ string) string { return cert }),
	"key":               agentFile(func(_, key, _ string) string { return key }),

	"terminal_base": profiled("terminal_base"),
	"os_user":       world.OSUser,
	"app_unit":      world.AppUnit,
	"session_id": func(c *hop.Case) string {
		return c.Field(diag.HopTerminalTokenMint, hop.StepMint, "token.session_id")
	},
	"correlation_id": func(c *hop.Case) string { return cmp.Or(c.Subject.CorrelationID, c.CorrelationID) },
	"agent_pid":      agentPID,
	"agent_address": func(c *hop.Case) string {
		return cmp.Or(reading.Addresses(world.ReadModel(c, "node.agent_addresses"))...)
	},
}

// profiled returns the value of a profile key.
func profiled(key string) func(c *hop.Case) string {
	return func(c *hop.Case) string { return c.Expected(key) }
}

// agentFile returns the path of one of the agent's files.
func agentFile(which func(cert, key, bundle string) string) func(c *hop.Case) string {
	return func(c *hop.Case) string {
		if c.Expected("agent_dir") == "" && c.Expected("agent_cert") == "" {
			return ""
		}
		return which(diag.AgentFilesIn(c.Subject.Expected))
	}
}

// agentVariable returns the name of a setting of the agent that is a variable of its environment, "" if it is none.
func agentVariable(which func(n profile.AgentNames) string) func(c *hop.Case) string {
	return func(c *hop.Case) string {
		if name := which(c.AgentNames()); !strings.ContainsAny(name, "/#:") && name != profile.Absent &&
			c.Expected("agent") == "" {
			return name
		}
		return ""
	}
}

// agentPID returns the agent's main process id, as systemd on the node reports it.
func agentPID(c *hop.Case) string {
	f := c.Fact(diag.HopNodeReadiness, hop.StepProcess)
	if f == nil || f.Unit == nil || f.Unit.PID == 0 {
		return ""
	}
	return strconv.Itoa(f.Unit.PID)
}

// knownAs returns how a known_hosts file names the node's SSH server; "" if by its host alone.
func knownAs(c *hop.Case) string {
	if _, rest, found := strings.Cut(hop.Pasted(c.Expected("ssh"), hop.LoginLine()), " -p "); found {
		port, _, _ := strings.Cut(rest, " ")
		return "[" + c.Subject.NodeHost + "]:" + port
	}
	return ""
}

// knownHosts returns the file that has the node's host key, "" if the profile leaves that to ssh_config.
func knownHosts(c *hop.Case) string {
	login := hop.Pasted(c.Expected("ssh"), hop.LoginLine())
	if _, rest, found := strings.Cut(login, " -o 'UserKnownHostsFile="); found {
		file, _, _ := strings.Cut(rest, "'")
		return file
	}
	_, rest, _ := strings.Cut(login, " -o UserKnownHostsFile=")
	file, _, _ := strings.Cut(rest, " ")
	return file
}

// execOf returns the prefix of a command on the node of a check, which is of no profile: the login itself; else "", for
// the default.
func execOf(c *hop.Case) string {
	if hop.Checked(&c.Plan) {
		return hop.SSHOf(c)
	}
	return ""
}

// targetOf returns the node as this tool's commands take it, with the profile and the host of this walk; "" if no node
// is named.
func targetOf(c *hop.Case) string {
	if c.Subject.NodeID == "" || hop.Checked(&c.Plan) {
		return ""
	}
	argv := []string{c.Subject.NodeID}
	if p := cmp.Or(c.Expected("profile_file"), c.Plan.Profile); p != "" {
		argv = append(argv, "--profile", p)
	}
	if strings.Contains(c.Plan.Command, " --node-host ") && c.Subject.NodeHost != "" {
		argv = append(argv, "--node-host", c.Subject.NodeHost)
	}
	return hop.Pasted(diag.Command(argv...), hop.TargetLine())
}
