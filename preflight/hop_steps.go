package preflight

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
)

// ofHop is the hop of a fact id, hop/step.
func ofHop(fact string) diag.HopID {
	hop, _, _ := strings.Cut(fact, "/")
	return diag.HopID(hop)
}

// The names of steps that more than their own hop reads.
const (
	stepHealthz    = "healthz"
	stepAuth       = "auth"
	stepAllocation = "allocation"
	stepReadModel  = "read_model"
	// stepReadAgain waits for the next heartbeat if the last one is just past its limit: a busy machine is late.
	stepReadAgain  = "read_again"
	stepSSH        = "ssh"
	stepProcess    = "process"
	stepClock      = "clock"
	stepReach      = "reach"
	stepIdentity   = "identity"
	stepProfile    = "profile"
	stepTaskWait   = "task_wait"
	stepHostRecord = "host_record"
	stepEnqueue    = "enqueue"
	stepTask       = "task"
	// stepRecordAfter reads the record again if a result did not come: the agent may have recorded why.
	stepRecordAfter = "record_after"
	stepMint        = "mint"
	stepSession     = "session"
	stepSessionRow  = "session"
	stepStream      = "stream"
	stepUnit        = "unit"
	stepUser        = "user"
	stepPort        = "port"
	stepRoute       = "route"
	stepAdmission   = "admission"
	stepGPUNode     = "node"
	stepGPUJudged   = "judged"
)

// fieldWebsocket is the mapped field of the path of a workload's WebSocket.
const fieldWebsocket = "allocation.app_websocket"

// unknownSessionID is the id of a session that no gateway has: the 404 for it proves the whole route, mTLS included,
// and disturbs no session.
const unknownSessionID = "preflight-nobody"

// diagnosticWrite is the size of the test write, in bytes. It is not 0, since a full disk accepts an empty write.
const diagnosticWrite = 8 << 10

// reused reports whether a request was sent over a connection that was there already.
func reused(f *diag.Fact) bool { return f.TCP != nil && f.TCP.Reused }

// fieldErrorCode is the mapped field of an error code.
const fieldErrorCode = "error.code"

// platformReads returns the hops that ask the API for something that it must look up or record. A hop that rests on the
// platform lists them in Behind: while one of them gets no answer, that may be the cause of a failure there.
func platformReads() []diag.HopID {
	return []diag.HopID{diag.HopAllocationBinding, diag.HopNodeHeartbeat, diag.HopNodeTaskRoundtrip,
		diag.HopTerminalOpenTask}
}

// counterReserve is the least part of a hop's budget that its steps leave for counter-probes.
const counterReserve = time.Second
