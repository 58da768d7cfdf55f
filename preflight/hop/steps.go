package hop

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// OfFact is the hop of a fact id, hop/step.
func OfFact(fact string) diag.HopID {
	hop, _, _ := strings.Cut(fact, "/")
	return diag.HopID(hop)
}

// The names of steps that more than their own hop reads.
const (
	StepHealthz    = "healthz"
	StepAuth       = "auth"
	StepAllocation = "allocation"
	StepReadModel  = "read_model"
	// StepReadAgain waits for the next heartbeat if the last one is just past its limit: a busy machine is late.
	StepReadAgain = "read_again"
	StepSSH       = "ssh"
	StepProcess   = "process"
	StepRoot      = "root_disk"
	StepDisk      = "disk"
	StepClock     = "clock"
	StepBinary    = "binary"
	StepReach     = "reach"
	StepPrograms  = "programs" // the look-up of the same name as the node's programs make it
	StepIdentity  = "identity"
	StepProfile   = "profile"
	StepTaskWait  = "task_wait"
	// The handshakes of the operator with the two listeners for nodes, if the node cannot be asked.
	StepAPIListener      = "api_listener"
	StepTerminalListener = "terminal_listener"
	StepHostRecord       = "host_record"
	StepEnqueue          = "enqueue"
	StepTask             = "task"
	// StepRecordAfter reads the record again if a result did not come: the agent may have recorded why.
	StepRecordAfter = "record_after"
	StepMint        = "mint"
	StepSession     = "session"
	StepSessionRow  = "session"
	StepStream      = "stream"
	StepUnit        = "unit"
	StepUser        = "user"
	StepPort        = "port"
	StepEndpoint    = "endpoint"
	StepRoute       = "route"
	StepAdmission   = "admission"
	StepGPUNode     = "node"
	StepGPUJudged   = "judged"
	StepMachine     = "machine"
	StepMounts      = "mounts"
	StepKernel      = "kernel"
)

// FieldWebsocket is the mapped field of the path of a workload's WebSocket.
const FieldWebsocket = "allocation.app_websocket"

// UnknownSessionID is the id of a session that no gateway has: the 404 for it proves the whole route, mTLS included,
// and disturbs no session.
const UnknownSessionID = "preflight-nobody"

// diagnosticWrite is the size of the test write, in bytes. It is not 0, since a full disk accepts an empty write.
const diagnosticWrite = 8 << 10

// Reused reports whether a request was sent over a connection that was there already.
func Reused(f *diag.Fact) bool { return f.TCP != nil && f.TCP.Reused }

// FieldErrorCode is the mapped field of an error code.
const FieldErrorCode = "error.code"

// PlatformReads returns the hops that ask the API for something that it must look up or record. A hop that rests on the
// platform lists them in Behind: while one of them gets no answer, that may be the cause of a failure there.
func PlatformReads() []diag.HopID {
	return []diag.HopID{diag.HopAllocationBinding, diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip,
		diag.HopTerminalOpenTask}
}

// counterReserve is the least part of a hop's budget that its steps leave for counter-probes.
const counterReserve = time.Second
