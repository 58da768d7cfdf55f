package diag

// Texts of reasons that say how something is. Each wording names the facts that it needs; see Text. All are literals: a
// table that code makes at the start is kept in every program, and the agent needs none of it.
var (
	titleUnreachable = Text{{
		{"Node and control plane do not reach each other", []Need{{string(HopNodeRuntimeAPI), MarkFail}}},
		{"Node and control plane do not reach each other", []Need{{FactContact, MarkFail}}},
		{Says: "Requests to the control plane fail"},
	}}
	titleAgentDown = Text{{
		{"The node agent does not run", []Need{{string(HopNodeReadiness), MarkFail}}},
		{Says: "The node agent was last recorded as stopped"},
	}}
	titleOpsAccess = Text{
		{{Says: "Operators cannot log in to the node"}},
		{{"the agent's heartbeat is current", []Need{{string(PointHeartbeat), MarkPass}}}},
	}
	titleAppStopped = Text{{
		{"The workload does not run", []Need{{string(HopAppRuntimeLiveness), MarkFail}}},
		{Says: "The workload was last seen stopped"},
	}}
	titleAppRoute = Text{{
		{"The workload runs, and users do not reach it", []Need{{string(HopAppRuntimeLiveness), MarkPass}}},
		{Says: "Users cannot reach the workload"},
	}}
	titleSilent = Text{{
		{"The platform refuses the node's heartbeats, and hears its other requests",
			[]Need{{FactHeartbeatAnswer, MarkFail}}},
		{"The agent reaches the platform, and its heartbeats do not arrive",
			[]Need{{FactContact, MarkPass}, {string(PointHeartbeat), MarkFail}}},
		{"The platform has no contact with the agent, and no cause is known", []Need{{string(PointHeartbeat), MarkFail}}},
		{Says: "The agent does not do what the platform asks, and no cause is known"},
	}}
	titleNone = Text{{
		{"Nothing is wrong with the node", allPass},
		{Says: "Nothing that was measured names a reason"},
	}}

	userUnreachable = Text{
		{
			{"Operation history is stale", []Need{{string(PointTask), MarkFail}}},
			{"Operation history is stale", []Need{{FactContact, MarkFail}}},
			{Says: "Operation history may be behind"},
		},
		{{"running work is not affected",
			[]Need{{string(HopAppRuntimeLiveness), MarkPass}, {string(HopAppUserRoute), MarkPass}}}},
	}
	userBacklog = Text{{
		{"Operation history is stale", []Need{{string(PointBacklog), MarkFail}}},
		{Says: "Operation history may be behind"},
	}}
	userDisconnected = Text{{
		{"Temporarily disconnected", []Need{{FactContact, MarkFail}}},
		{"Temporarily disconnected", []Need{{string(HopNodeReadiness), MarkFail}}},
		{Says: "Management of the node is interrupted"},
	}}

	nextSilent = Text{{
		{"repair what answers the heartbeats in the control plane; the agent sends them, and a restart of it changes nothing",
			[]Need{{FactHeartbeatAnswer, MarkFail}}},
		{Says: "collect the host's diagnostic record"},
	}}
	nextNone = Text{{
		{"nothing to do", allPass},
		{Says: "measure the recovery points that are unknown"},
	}}

	// rejectedWithoutToken is what to do about a rejected certificate where nothing comes of waiting.
	rejectedWithoutToken = Wording{
		"find out why the platform rejects this certificate; without a recovery token the node does not recover by itself",
		[]Need{{FactToken, MarkFail}},
	}

	// allPass needs the whole checklist.
	allPass = []Need{
		{string(PointHeartbeat), MarkPass}, {string(PointIssuer), MarkPass}, {string(PointWait), MarkPass}, {string(PointTask), MarkPass},
		{string(PointBacklog), MarkPass},
	}
)
