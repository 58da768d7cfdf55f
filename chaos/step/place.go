package step

// Where the tool's own things lie on every machine that drills break: a process that plans, sends, carries out or looks
// for a drill has the same word for it.
const (
	Program  = "gpuaas-fault"             // what carries a drill out; a copy lies in the drill's folder
	StateDir = "/var/lib/gpuaasctl/drill" // a folder for each drill, by its run's id
	// the tmpfs into which programs are pushed: /run is noexec on common hosts, and a disk may be full
	RunDir      = "/run/gpuaasctl"
	ConsentFile = "/etc/gpuaas/chaos.allow" // the owner's word that the machine may be broken
)
