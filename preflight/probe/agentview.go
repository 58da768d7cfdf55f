package probe

// AgentView is the running agent as the node's probe sees it. The zero value is "no agent known".
type AgentView struct {
	Unit    string            // systemd unit
	EnvFile string            // fallback when no process runs
	PID     int               // main process, 0 when none
	Source  string            // process | env_file; "" when neither could be read
	Env     map[string]string // only the names in EnvNames
	Denied  bool              // the environment is there and may not be read
}

// Sources of an agent's environment.
const (
	sourceProcess = "process"
	sourceEnvFile = "env_file"
)
