package step

// Locations of the tool's own files on every machine that drills break.
const (
	Program  = "gpuaas-fault"             // executes a drill; a copy is in the drill's folder
	StateDir = "/var/lib/gpuaasctl/drill" // a folder for each drill, named by its run's id
	// the tmpfs to which programs are pushed: /run is often noexec, and a disk may be full
	RunDir      = "/run/gpuaasctl"
	ConsentFile = "/etc/gpuaas/chaos.allow" // the owner's permission to break the machine
)
