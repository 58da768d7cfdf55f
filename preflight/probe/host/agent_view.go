package host

// AgentView is the running agent as the node's probe sees it. The zero value means that no agent is known.
type AgentView struct {
	Unit    string            // systemd unit
	EnvFile string            // fallback when no process runs
	PID     int               // main process, 0 when none
	Source  string            // process | env_file; "" if neither could be read
	Env     map[string]string // only the names in EnvNames
	Denied  bool              // the environment exists but may not be read

	files []string // environment files of the unit
}

// Sources of an agent's environment.
const (
	SourceProcess = "process"
	SourceEnvFile = "env_file"
	SourceFile    = "file" // no environment: values in files
)
