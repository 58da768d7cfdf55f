package diag

// Texts of reasons that say how something is. Each wording names the facts that it needs; see Text.
var (
	titleUnreachable = Text{{
		when("Node and control plane do not reach each other", failed(HopNodeRuntimeAPI)),
		when("Node and control plane do not reach each other", failed(FactContact)),
		when("Requests to the control plane fail"),
	}}
	titleAgentDown = Text{{
		when("The node agent does not run", failed(HopNodeReadiness)),
		when("The node agent was last recorded as stopped"),
	}}
	titleOpsAccess = Text{
		{when("Operators cannot enter the node")},
		{when("the agent's heartbeat is current", passed(PointHeartbeat))},
	}
	titleAppStopped = Text{{
		when("The workload does not run", failed(HopAppRuntimeLiveness)),
		when("The workload was last seen stopped"),
	}}
	titleAppRoute = Text{{
		when("The workload runs, and users do not reach it", passed(HopAppRuntimeLiveness)),
		when("Users do not reach the workload"),
	}}
	titleSilent = Text{{
		when("The agent reaches the platform, and its heartbeats do not arrive", passed(FactContact), failed(PointHeartbeat)),
		when("The agent is not heard of, and nothing says why", failed(PointHeartbeat)),
		when("The agent does not do what the platform asks, and nothing says why"),
	}}
	titleNone = Text{{
		when("Nothing is wrong with the node", allPoints()...),
		when("Nothing that was measured names a reason"),
	}}

	userUnreachable = Text{
		{
			when("Operation history is stale", failed(PointTask)),
			when("Operation history is stale", failed(FactContact)),
			when("Operation history may be behind"),
		},
		{when("running work is not affected", passed(HopAppRuntimeLiveness), passed(HopAppUserRoute))},
	}
	userBacklog = Text{{
		when("Operation history is stale", failed(PointBacklog)),
		when("Operation history may be behind"),
	}}
	userDisconnected = Text{{
		when("Temporarily disconnected", failed(FactContact)),
		when("Temporarily disconnected", failed(HopNodeReadiness)),
		when("Management of the node is interrupted"),
	}}

	nextNone = Text{{
		when("nothing to do", allPoints()...),
		when("measure the recovery points that are unknown"),
	}}
)

// rejectedNext is what to do about a rejected certificate: without a recovery token nothing comes of waiting.
func rejectedNext(text string) Text {
	return Text{{
		when("find out why the platform rejects this certificate; without a recovery token nothing recovers by itself", failed(FactToken)),
		when(text),
	}}
}
