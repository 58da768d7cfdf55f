package diag

// Owners, in the runbook's cut. A row names one; "a, b" means that a is called first.
const (
	ownerOperator    = "operator access"
	ownerAPI         = "control plane API"
	ownerAllocation  = "allocation lifecycle"
	ownerNode        = "node runtime"
	ownerNodeNet     = "node runtime, provider network"
	ownerObserve     = "node runtime, observability"
	ownerOps         = "ops access, provider network"
	ownerProvider    = "provider VM runtime, ops access"
	ownerRelease     = "bootstrap and release packaging"
	ownerNetwork     = "environment networking"
	ownerPKI         = "PKI, edge profile"
	ownerEnrollment  = "PKI, node enrollment"
	ownerEdge        = "edge and route profile"
	ownerProfile     = "environment profile"
	ownerSecurity    = "security, node enrollment"
	ownerTasks       = "control plane, node agent version"
	ownerResults     = "control plane API, node network"
	ownerSweeper     = "lifecycle task sweeper"
	ownerGateway     = "terminal gateway, edge"
	ownerTermNet     = "node-facing terminal endpoint"
	ownerTermAgent   = "node agent, node-facing terminal endpoint"
	ownerTermPKI     = "PKI, terminal gateway"
	ownerTermUX      = "terminal gateway contract, web UX"
	ownerUsers       = "node runtime, allocation user setup"
	ownerApp         = "app runtime"
	ownerAppRoute    = "proxy runtime, app route"
	ownerGPU         = "node runtime, GPU hardware"
	runbookPage      = "docs/runbook.md#" // every signal is an anchor there
	proveAlloc       = "{preflight} --allocation-id {allocation_id} --only "
	proveNode        = "{preflight} --only "
	proveSession     = proveAlloc + "allocation_binding,terminal_token_mint,browser_terminal_ws"
	stepRestartAgent = "restart the agent so that it reads the repaired settings: `{ssh} systemctl restart {unit}`"
)

// signalRows is the one table of signals. Meaning follows the runbook's two matrices; signals that they lack are
// written in the same form.
var signalRows = [...]SignalRow{
	{
		Signal: SigControlPlaneUnreachable, Reason: ReasonControlPlaneUnreachable,
		Title: "The control plane API does not answer from here", Owner: ownerOperator + ", " + ownerAPI,
		Owners: map[Side]string{SideOperator: ownerOperator, SidePlatform: ownerAPI + ", " + ownerEdge},
		Recovery: []Step{
			{Text: "find the request in the logs of the edge and the API, by the correlation id {correlation_id}", Side: SidePlatform},
			{Text: "look at what the API works with: database, queue, disk; restore the API, or the edge's way to it; nodes retry by themselves", Side: SidePlatform},
			{Text: "if it does not answer from another network either, the API or its edge is down; fix that first: `curl -sS -m 5 {api_base}/healthz`", Side: SideOperator},
			{Text: "fix the look-up of the API's name on the operator's side", Side: SideOperator, About: []Aspect{AboutName}},
			{Text: "fix the VPN, route or firewall on the operator's side", Side: SideOperator, About: []Aspect{AboutPath}},
			{Text: "compare the certificate that it shows with the CA that the profile names (trust.operator_ca)", Side: SideOperator, About: []Aspect{AboutServerCert}},
		},
		Proof: proveNode + "control_plane_access", Runbook: runbookPage + "control_plane_api_unreachable",
	}, {
		Signal: SigOperatorAuthFailed, Reason: ReasonNone,
		Title: "The control plane refuses the operator's credentials", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "renew the operator token and put it into the file that the profile's auth.token_file names (mode 0600)"},
			{Text: "check role and project of that token; reading nodes and tasks needs the admin scope"},
		},
		Proof: proveNode + "control_plane_access", Runbook: runbookPage + "operator_auth_failed",
	}, {
		Signal: SigAllocationNotActive, Reason: ReasonNone,
		Title: "The allocation is not active", Owner: ownerAllocation,
		Recovery: []Step{
			{Text: "look at the state of {allocation_id}: a terminal exists only for an active allocation"},
			{Text: "when it is release_failed, resolve the clean-up by an audited force-release, not by database edits"},
		},
		Proof: proveAlloc + "allocation_binding", Runbook: runbookPage + "allocation_not_active",
	}, {
		Signal: SigAllocationNodeMismatch, Reason: ReasonNone,
		Title: "The allocation is bound to another node", Owner: ownerAllocation,
		Recovery: []Step{
			{Text: "take the node id from the allocation itself, and walk that node instead of {node_id}"},
			{Text: "if the binding is wrong, repair it through the allocation lifecycle; never point a session at another node by hand"},
		},
		Proof: proveAlloc + "allocation_binding", Runbook: runbookPage + "allocation_node_mismatch",
	}, {
		Signal: SigHeartbeatStale, Reason: ReasonNodeAgentUnreachable, Dashboard: AgentStale,
		Title: "The platform has no recent heartbeat of the node", Owner: ownerNodeNet,
		Owners: map[Side]string{SidePlatform: ownerAPI},
		Recovery: []Step{
			{Text: "read what the agent says: `{ssh} journalctl -u {unit} -n 100 --no-pager`", About: []Aspect{AboutAgent}},
			{Text: "when its network, identity and disk are sound, restart it: `{ssh} systemctl restart {unit}`", About: []Aspect{AboutAgent}},
			{Text: "otherwise repair route, DNS or firewall first; a restart fixes none of these", About: []Aspect{AboutAPIWay}},
			{Text: "find out what refuses the heartbeats, in the log of the node API and of the ingress before it; the agent sends them",
				Side: SidePlatform},
		},
		Proof: proveNode + "node_heartbeat", Runbook: runbookPage + "node_agent_heartbeat_stale",
	}, {
		Signal: SigOpsSSHFailed, Reason: ReasonOpsAccessUnhealthy,
		Title: "The node cannot be entered by SSH", Owner: ownerOps,
		Recovery: []Step{
			{Text: "open the provider's console for {node_host}: is the machine up, does its SSH server run, and does it listen?", About: []Aspect{AboutPath}},
			{Text: "repair the SSH server, its route or firewall; the agent's own path to the platform is another one", About: []Aspect{AboutPath}},
			{Text: "compare the host key that it shows with the node's own at the provider's console; accept it only if the machine was reinstalled", On: SSHHostKey},
			{Text: "let the node accept this login: the key in the user's authorized_keys on the node, or ssh.user and ssh.identity in the profile", On: SSHAuth},
			{Text: "allow this login to run sudo without a password; where that is not wanted, set ssh.sudo: false in the profile", On: NotPermitted},
			{Text: "do not treat the agent as down: its heartbeat decides that"},
		},
		Proof: proveNode + "node_ops_access", Runbook: runbookPage + "node_ops_ssh_failed",
	}, {
		Signal: SigOpsAccessUnhealthy, Reason: ReasonOpsAccessUnhealthy,
		Title: "SSH and the provider's guest agent are both down while the agent reports", Owner: ownerProvider,
		Recovery: []Step{
			{Text: "open the provider's console for {node_host} and repair the guest's access path"},
			{Text: "when that is not possible, drain and recreate the worker: a living agent alone is not enough for day-two work"},
		},
		Proof: proveNode + "node_ops_access", Runbook: runbookPage + "node_ops_access_unhealthy",
	}, {
		Signal: SigOperatorKeyMissing, Reason: ReasonNone,
		Title: "This operator has no SSH key to offer", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "load the key of this login, then see that the agent holds it: `ssh-add`, `ssh-add -l`"},
			{Text: "or name its file as ssh.identity in the profile; an encrypted key needs the agent"},
			{Text: "do not touch the node: it has not seen all of this operator's keys"},
		},
		Proof: proveNode + "node_ops_access", Runbook: runbookPage + "operator_ssh_key_missing",
	}, {
		Signal: SigOperatorHostKeyUnknown, Reason: ReasonNone,
		Title: "This operator has not accepted the node's host key yet", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "look at the key, compare it with the node's console or provider, and accept it: `{ssh_trust}`"},
			{Text: "if the team keeps a known_hosts file, name it as ssh.known_hosts in the profile"},
		},
		Proof: proveNode + "node_ops_access", Runbook: runbookPage + "operator_host_key_unknown",
	}, {
		Signal: SigOperatorPathBroken, Reason: ReasonNone,
		Title: "This operator's way to the node's SSH server is broken", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "run the same login by hand and see where it stops (-v says more): `{ssh} true`", Tries: RelyLogin},
			{Text: "repair what the finding names: the settings, the jump host, the name or the route on this side"},
			{Text: "do not touch the node: it was not contacted"},
		},
		Proof: proveNode + "node_ops_access", Runbook: runbookPage + "operator_ssh_path_broken",
	}, {
		Signal: SigOperatorHelperMissing, Reason: ReasonNone,
		Title: "There is no gpuaas-agent to probe the node with", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "give the folder of a gpuaas-agent for the node's machine type: `{preflight} --libexec FOLDER`"},
			{Text: "or correct agent.binary in the profile, where the node has one elsewhere"},
		},
		Proof: proveNode + "node_ops_access", Runbook: runbookPage + "operator_helper_missing",
	}, {
		Signal: SigNodeUnknown, Reason: ReasonNone,
		Title: "The platform knows no node of this name", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "compare the node's id with the platform's list, and give the right one: --node-id, or nodes in the profile"},
			{Text: "where the id is right, check that api_base and mapping.paths.node are those of this node's platform: {api_base}"},
		},
		Proof: proveNode + "node_heartbeat", Runbook: runbookPage + "operator_node_unknown",
	}, {
		Signal: SigAllocationUnknown, Reason: ReasonNone,
		Title: "The platform knows no allocation of this name", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "compare the allocation's id with the platform's list, and give the right one: --allocation-id"},
			{Text: "where the id is right, check that api_base and mapping.paths.allocation are those of its platform: {api_base}"},
		},
		Proof: proveAlloc + "allocation_binding", Runbook: runbookPage + "operator_allocation_unknown",
	}, {
		Signal: SigProfileMismatch, Reason: ReasonNone,
		Title: "The profile does not describe this node", Owner: ownerOperator + ", " + ownerProfile,
		Recovery: []Step{
			{Text: "see which machine answers, and what runs there: `{ssh} hostname`, `{ssh} systemctl list-units --type=service --no-pager`"},
			{Text: "correct the node's host, or agent.unit, agent.dir and agent.binary, in the profile"},
			{Text: "leave the node alone: its agent reports to the platform, or another machine was looked at"},
		},
		Proof: proveNode + "node_readiness,node_recovery_status", Runbook: runbookPage + "operator_profile_mismatch",
	}, {
		Signal: SigOperatorClockSkew, Reason: ReasonNone,
		Title: "This operator's clock is wrong", Owner: ownerOperator,
		Recovery: []Step{
			{Text: "set this machine's time: `timedatectl status`"},
			{Text: "then look at dates of tokens and certificates again; the node's clock is not known to be wrong"},
		},
		Proof: proveNode + "node_readiness", Runbook: runbookPage + "operator_clock_skew",
	}, {
		Signal: SigDiskFull, Reason: ReasonDiskFull,
		Title: "The node's disk is full", Owner: ownerObserve,
		Recovery: []Step{
			{Text: "see what holds the space: `{ssh} df -h / {diag_dir}`, then `{ssh} du -xh --max-depth=2 {full_dir}`"},
			{Text: "shrink the journal: `{ssh} journalctl --vacuum-size=200M`; stop whatever local buffer is running away"},
			{Text: "then look at certificates and terminal again: both fail silently while nothing can be written"},
		},
		Proof: proveNode + "node_readiness,node_recovery_status", Runbook: runbookPage + "disk_full",
	}, {
		Signal: SigDiskPressure, Reason: ReasonDiskFull,
		Title: "The node's disk is nearly full", Owner: ownerObserve,
		Recovery: []Step{
			{Text: "see what grows: `{ssh} du -xh --max-depth=2 {full_dir}`"},
			{Text: "rotate or drop observability buffers: `{ssh} journalctl --vacuum-size=200M`"},
		},
		Proof: proveNode + "node_readiness", Runbook: runbookPage + "node_observability_disk_pressure",
	}, {
		Signal: SigProcessDown, Reason: ReasonAgentDown, Dashboard: AgentStale,
		Title: "The node agent does not run, or runs and does not answer", Owner: ownerNode,
		Recovery: []Step{
			{Text: "see how it ended: `{ssh} systemctl status {unit} --no-pager`, `{ssh} journalctl -u {unit} -n 50 --no-pager`"},
			{Text: "start it: `{ssh} systemctl restart {unit}`"},
			{Text: "when it exits again, check binary, environment file, certificate paths and permissions: `{ssh} ls -l {binary} {env_file} {cert} {key}`"},
		},
		Proof: proveNode + "node_readiness,node_heartbeat", Runbook: runbookPage + "node_agent_process_down",
	}, {
		Signal: SigBinaryInvalid, Reason: ReasonAgentDown, Dashboard: AgentStale,
		Title: "The agent's program is missing or not made for this machine", Owner: ownerRelease,
		Recovery: []Step{
			{Text: "compare program and machine: `{ssh} file {binary}`, `{ssh} uname -m`"},
			{Text: "install the package for this architecture, then start it: `{ssh} systemctl restart {unit}`"},
		},
		Proof: proveNode + "node_readiness", Runbook: runbookPage + "node_agent_binary_invalid",
	}, {
		Signal: SigClockSkew, Reason: ReasonClockSkew,
		Title: "The node's clock is wrong", Owner: ownerNode,
		Recovery: []Step{
			{Text: "set the time first: `{ssh} timedatectl status`, `{ssh} systemctl restart systemd-timesyncd`"},
			{Text: "judge certificates only after that; a wrong clock makes good ones look expired"},
		},
		Proof: proveNode + "node_readiness", Runbook: runbookPage + "node_clock_skew",
	}, {
		Signal: SigAPIUnreachable, Reason: ReasonControlPlaneUnreachable, Dashboard: AgentAPIUnreachable,
		Title: "The node cannot reach the platform's API", Owner: ownerNetwork,
		Owners: map[Side]string{SidePlatform: ownerAPI + ", " + ownerEdge},
		Recovery: []Step{
			{Text: "see the look-up from the node: `{ssh} getent ahosts {api_host}`", About: []Aspect{AboutName}},
			{Text: "see it from the node: `{ssh} curl -sS -m 5 -o /dev/null {api_url}`"},
			{Text: "repair the name look-up: DNS server, resolver or hosts file of the node, or the name in the profile", About: []Aspect{AboutName}},
			{Text: "repair the way there: private route, VPN or firewall", About: []Aspect{AboutPath}},
			{Text: "restore what is behind the listener: the node API, or the edge in front of it", Side: SidePlatform},
			{Text: "leave the agent running: it retries by itself once the path is back"},
		},
		Proof: proveNode + "node_runtime_api_reachability", Runbook: runbookPage + "node_agent_api_unreachable",
	}, {
		Signal: SigAPITLSFailed, Reason: ReasonServerTLSUntrusted, Dashboard: AgentAPIUnreachable,
		Title: "The node does not trust the API's certificate", Owner: ownerPKI,
		Recovery: []Step{
			{Text: "see the chain against the node's bundle: `{ssh} openssl s_client -connect {api_addr} -servername {api_host} -CAfile {ca_bundle} -verify_return_error -brief`"},
			{Text: "rewrite the bundle from the active profile (endpoints and CA together), or repair the server's certificate when every node complains"},
			{Text: stepRestartAgent},
		},
		Proof: proveNode + "node_runtime_api_reachability", Runbook: runbookPage + "node_agent_api_tls_failed",
	}, {
		Signal: SigEdgeRateLimited, Reason: ReasonEdgeRateLimited, Dashboard: AgentAPIUnreachable,
		Title: "An edge limits the node's requests", Owner: ownerEdge,
		Recovery: []Step{
			{Text: "check first that the node uses the private node-facing API: `{ssh} grep ^GPUAAS_API_URL= {env_file}`"},
			{Text: "only then look at the edge's rate rule; never make the agent retry harder"},
		},
		Proof: proveNode + "node_runtime_api_reachability", Runbook: runbookPage + "node_agent_edge_rate_limited",
	}, {
		Signal: SigAuthFailed, Reason: ReasonIdentityRejectedRecoverable, Dashboard: AgentAuthFailed,
		Title: "The platform rejects the node's identity", Owner: ownerEnrollment,
		Recovery: []Step{
			{Text: "read dates and names of the node's certificate: `{ssh} openssl x509 -in {cert} -noout -dates -subject -issuer -serial`"},
			{Text: "check that the request really arrives at the node ingress and not at a public edge: `{ssh} grep ^GPUAAS_API_URL= {env_file}`", About: []Aspect{AboutListener}},
			{Text: "re-enroll the node with an audited bundle, or revoke the identity when it is cloned", Needs: []Reliance{RelyAPI}},
		},
		Proof: proveNode + "node_recovery_status", Runbook: runbookPage + "node_agent_auth_failed",
	}, {
		Signal: SigResultPostFailed, Reason: ReasonTaskResultPostFailed, Dashboard: AgentTaskResultFailed,
		Title: "The node claims tasks but cannot post their results", Owner: ownerResults,
		Recovery: []Step{
			{Text: "read the agent's post errors: `{ssh} journalctl -u {unit} -n 100 --no-pager`"},
			{Text: "restore the path for results at the node API; results wait on the node and are posted again"},
			{Text: "do not mark the workload failed: only its status is late"},
		},
		Proof: proveNode + "node_task_roundtrip", Runbook: runbookPage + "node_task_result_post_failed",
	}, {
		Signal: SigEndpointProfileDrift, Reason: ReasonEndpointProfileDrift, Dashboard: AgentAuthFailed,
		Title: "The node uses other endpoints than the active profile", Owner: ownerProfile,
		Recovery: []Step{
			{Text: "compare with the profile: `{ssh} grep _URL= {env_file}`"},
			{Text: "issue a recovery bundle, which rewrites endpoints and CA material together; a new token alone does not help", Needs: []Reliance{RelyAPI}},
			{Text: stepRestartAgent},
		},
		Proof: proveNode + "node_recovery_status", Runbook: runbookPage + "node_endpoint_profile_drift",
	}, {
		Signal: SigIdentityCloned, Reason: ReasonClonedIdentity, Dashboard: AgentAuthFailed,
		Title: "Two machines present this node's identity", Owner: ownerSecurity,
		Recovery: []Step{
			{Text: "page security, and keep both machines as they are for evidence"},
			{Text: "fence the duplicate, then give the machine that stays a new identity by a fresh bootstrap; there is no repair in place"},
		},
		Proof: proveNode + "node_recovery_status", Runbook: runbookPage + "node_identity_cloned",
	}, {
		Signal: SigVersionDrift, Reason: ReasonAgentVersionDrift,
		Title: "The agent is another version than the platform expects", Owner: ownerTasks,
		Recovery: []Step{
			{Text: "see what runs: `{ssh} {binary} version`"},
			{Text: "update it by the platform's self-update task before repairing workloads", Needs: []Reliance{RelyTasks}},
			{Text: "bootstrap the node again with the wanted version: it takes no update task now", When: RelyTasks},
		},
		Proof: proveNode + "node_recovery_status", Runbook: runbookPage + "node_agent_version_drift",
	}, {
		Signal: SigIngressCADrift, Reason: ReasonCertUntrustedByIngress, Dashboard: AgentAuthFailed,
		Title: "The node ingress does not trust the CA that signs node certificates", Owner: ownerPKI,
		Recovery: []Step{
			{Text: "repair the control plane first: one CA for the API's signing config, the bootstrap bundle and the ingress trust secret"},
			{Text: "do not re-enroll nodes before that: every new certificate would be rejected, too"},
		},
		Proof: proveNode + "node_recovery_status", Runbook: runbookPage + "node_ingress_ca_drift",
	}, {
		Signal: SigTaskClaimFailed, Reason: ReasonAgentVersionDrift, Dashboard: AgentTaskResultFailed,
		Title: "The node polls but does not take tasks", Owner: ownerTasks,
		Recovery: []Step{
			{Text: "read why the agent refuses: `{ssh} journalctl -u {unit} -n 100 --no-pager`"},
			{Text: "bring signing key and verifier keys together (old and new overlap), or roll the agent to a build that knows the task type"},
		},
		Proof: proveNode + "node_task_roundtrip", Runbook: runbookPage + "node_task_claim_failed",
	}, {
		Signal: SigTaskBacklogStale, Reason: ReasonTaskBacklogStale,
		Title: "Expired tasks are still shown as current work", Owner: ownerSweeper,
		Recovery: []Step{
			{Text: "wait for one sweep; expired tasks become history by themselves"},
			{Text: "when they stay, repair the sweeper; no database edits"},
		},
		Proof: proveNode + "node_task_roundtrip", Runbook: runbookPage + "node_task_backlog_stale",
	}, {
		Signal: SigTokenMintFailed, Reason: ReasonTerminalGatewayDown, Terminal: TerminalFailed,
		Title: "No terminal token is issued", Owner: ownerAPI + ", " + ownerAllocation,
		Recovery: []Step{
			{Text: "follow the correlation id {correlation_id} in the API's log; the error code of the answer says which check refused"},
			{Text: "repair session, role or project context of the request"},
			{Text: "repair the allocation's state", About: []Aspect{AboutAllocation}},
		},
		Proof: proveAlloc + "terminal_token_mint", Runbook: runbookPage + "terminal_token_mint_failed",
	}, {
		Signal: SigPublicRouteMissing, Reason: ReasonTerminalGatewayDown, Terminal: TerminalFailed,
		Title: "The public route to the terminal gateway is missing", Owner: ownerEdge,
		Recovery: []Step{
			{Text: "look at the health page, not at the root: `curl -sS -m 5 -i {terminal_base}/healthz`"},
			{Text: "restore the edge's rule for this host, its health path and its WebSocket upgrade"},
		},
		Proof: proveNode + "terminal_public_route", Runbook: runbookPage + "terminal_public_route_missing",
	}, {
		Signal: SigUpgradeFailed, Reason: ReasonTerminalGatewayDown, Terminal: TerminalFailed,
		Title: "The terminal gateway does not take the browser's WebSocket", Owner: ownerGateway,
		Recovery: []Step{
			{Text: "read the gateway's log for session {session_id}, correlation id {correlation_id}"},
			{Text: "repair whichever is broken: Upgrade headers at the edge, the token subprotocol, the session binding in Redis, the gateway itself"},
		},
		Proof: proveSession, Runbook: runbookPage + "terminal_gateway_upgrade_failed",
	}, {
		Signal: SigOpenWithoutStream, Reason: ReasonTerminalEndpointDrift, Terminal: TerminalFailed,
		Title: "The open task is done, but no node stream arrived", Owner: ownerTermAgent,
		Recovery: []Step{
			{Text: "read the agent's words on this session, by the correlation id {correlation_id}: `{ssh} journalctl -u {unit} -n 100 --no-pager`"},
			{Text: "see which agent runs: `{ssh} {binary} version`; builds that report success before the stream is up must be replaced", Guess: true, About: []Aspect{AboutBuild}},
			{Text: "then repair the node-facing terminal endpoint: `{ssh} curl -sS -m 5 -o /dev/null {terminal_url}`", Guess: true, About: []Aspect{AboutTerminalWay}},
		},
		Proof: proveSession + ",terminal_open_task,gateway_node_stream", Runbook: runbookPage + "terminal_open_without_stream",
	}, {
		Signal: SigNodeStreamTimeout, Reason: ReasonTerminalEndpointDrift, Terminal: TerminalFailed,
		Title: "The node's terminal stream does not reach the gateway", Owner: ownerTermNet,
		Recovery: []Step{
			{Text: "see the look-up from the node: `{ssh} getent ahosts {terminal_host}`", About: []Aspect{AboutName}},
			{Text: "see it from the node: `{ssh} curl -sS -m 5 -o /dev/null {terminal_url}`"},
			{Text: "repair the name look-up of {terminal_host} on the node", About: []Aspect{AboutName}},
			{Text: "repair route, port or firewall between the node and {terminal_addr}; a public edge is no substitute", About: []Aspect{AboutPath}},
			{Text: "restore the terminal gateway behind the listener: what it waits for is in its log, by the correlation id {correlation_id}", Side: SidePlatform},
		},
		Proof: proveNode + "node_terminal_reachability", Runbook: runbookPage + "terminal_node_stream_timeout",
	}, {
		Signal: SigConnectingStuck, Reason: ReasonTerminalGatewayDown, Terminal: TerminalFailed,
		Title: "The browser waits past the timeout and is told nothing", Owner: ownerTermUX,
		Recovery: []Step{
			{Text: "make the gateway send an error frame when its node-stream timeout ends; read its log for session {session_id}"},
			{Text: "make the page show that frame as text that a user can act on"},
		},
		Proof: proveSession, Runbook: runbookPage + "terminal_ui_connecting_stuck",
	}, {
		Signal: SigNodeStreamMTLS, Reason: ReasonTerminalEndpointDrift, Terminal: TerminalFailed,
		Title: "The terminal gateway rejects the node's certificate", Owner: ownerTermPKI,
		Recovery: []Step{
			{Text: "read the node's certificate: `{ssh} openssl x509 -in {cert} -noout -dates -subject -issuer -serial`", About: []Aspect{AboutIdentity}},
			{Text: "see which issuers the listener takes: `{ssh} openssl s_client -connect {terminal_addr} -servername {terminal_host} -brief`"},
			{Text: "repair the node's certificate or its SAN", About: []Aspect{AboutIdentity}},
			{Text: "repair the client CA of the terminal gateway"},
		},
		Proof: proveNode + "node_terminal_reachability", Runbook: runbookPage + "terminal_node_stream_mtls_failed",
	}, {
		Signal: SigTerminalProfileDrift, Reason: ReasonTerminalEndpointDrift, Terminal: TerminalFailed,
		Title: "The node's terminal endpoint is not the profile's", Owner: ownerProfile,
		Recovery: []Step{
			{Text: "compare: `{ssh} grep ^GPUAAS_TERMINAL_API_URL= {env_file}`; the profile says {terminal_url}"},
			{Text: "rewrite the endpoint from the profile by a bundle, and record the difference as environment drift"},
			{Text: stepRestartAgent},
		},
		Proof: proveNode + "node_terminal_reachability", Runbook: runbookPage + "terminal_env_profile_drift",
	}, {
		Signal: SigPTYFailed, Reason: ReasonTerminalStartupFailed, Terminal: TerminalFailed,
		Title: "The stream is up, but no shell starts for the allocation's user", Owner: ownerUsers,
		Recovery: []Step{
			{Text: "look at user and shell: `{ssh} getent passwd {os_user}`", About: []Aspect{AboutUser}},
			{Text: "read the agent's terminal log: `{ssh} journalctl -u {unit} -n 100 --no-pager`"},
			{Text: "repair user, shell or PTY permissions through the allocation's own set-up, not by hand"},
		},
		Proof: proveSession + ",workload_terminal_startup_failure", Runbook: runbookPage + "terminal_pty_failed",
	}, {
		Signal: SigAppStopped, Reason: ReasonAppRuntimeFailed,
		Title: "The workload does not run", Owner: ownerApp,
		Recovery: []Step{
			{Text: "see how it ended: `{ssh} systemctl status {app_unit} --no-pager`"},
			{Text: "restart it through the app runtime, so that its state is recorded; the node needs no repair", Needs: []Reliance{RelyAPI}},
		},
		Proof: proveAlloc + "allocation_binding,app_runtime_liveness", Runbook: runbookPage + "app_runtime_stopped",
	}, {
		Signal: SigAppObservationStale, Reason: ReasonAppObservationStale,
		Title: "The last look at the workload is old", Owner: ownerApp,
		Recovery: []Step{
			{Text: "keep the last known status; an expired probe is a missing observation, not a failure"},
			{Text: "wait for the next probe, or repair the task path when probes keep expiring"},
		},
		Proof: proveAlloc + "allocation_binding,app_runtime_liveness", Runbook: runbookPage + "app_observation_stale",
	}, {
		Signal: SigAppRouteFailed, Reason: ReasonAppRouteFailed,
		Title: "The user cannot reach the workload", Owner: ownerAppRoute,
		Recovery: []Step{
			{Text: "try the product URL: `curl -sS -m 5 -i {app_url}`"},
			{Text: "repair the proxy's rule for this workload; the node needs no recovery"},
		},
		Proof: proveAlloc + "allocation_binding,app_user_route", Runbook: runbookPage + "app_route_failed",
	}, {
		Signal: SigAppCredentialFailing, Reason: ReasonAppCredentialFailing,
		Title: "The workload's credential is refused again and again", Owner: "credential broker",
		Recovery: []Step{
			{Text: "see which credential of {allocation_id} is refused, and since when: the platform's read model of the allocation names it", Needs: []Reliance{RelyAPI}},
			{Text: "renew it at the credential broker; one action item, deduplicated"},
		},
		Proof: proveAlloc + "allocation_binding,app_runtime_liveness", Runbook: runbookPage + "app_credential_failing",
	}, {
		Signal: SigGPUDegraded, Reason: ReasonGPUUnhealthy,
		Title: "A GPU works with limits", Owner: ownerGPU,
		Recovery: []Step{
			{Text: "look at the GPUs: `{ssh} nvidia-smi -q -d TEMPERATURE,POWER,ECC,PERFORMANCE`"},
			{Text: "repair cooling, power or link at the next maintenance; running work may stay"},
		},
		Proof: proveNode + "gpu_health", Runbook: runbookPage + "gpu_degraded",
	}, {
		Signal: SigGPUUnhealthy, Reason: ReasonGPUUnhealthy,
		Title: "A GPU has failed", Owner: ownerGPU,
		Recovery: []Step{
			{Text: "cordon the node so that nothing new is placed on it"},
			{Text: "read the driver's errors: `{ssh} nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER`"},
			{Text: "drain, then reset or replace the GPU; only a fully healthy report brings the node back"},
		},
		Proof: proveNode + "gpu_health", Runbook: runbookPage + "gpu_unhealthy",
	}, {
		Signal: SigGPUUnknown, Reason: ReasonNone,
		Title: "The GPUs could not be measured", Owner: ownerGPU,
		Recovery: []Step{
			{Text: "see whether the driver answers: `{ssh} nvidia-smi -L`"},
			{Text: "until it does, nothing is known: neither healthy nor failed"},
		},
		Proof: proveNode + "gpu_health", Runbook: runbookPage + "gpu_unknown",
	},
}
