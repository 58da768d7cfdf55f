package trust

import "github.com/gpuaas/gpuaasctl/diag"

// Repair is one step: where it is done, and what, with commands to paste between backticks.
type Repair struct {
	Where string `json:"where"` // control_plane | profile | node
	Text  string `json:"text"`
}

// Where a step is done, in the order in which steps are done.
const (
	atControlPlane = "control_plane"
	atProfile      = "profile"
	atNode         = "node"
)

func order(where string) int {
	switch where {
	case atControlPlane:
		return 0
	case atProfile:
		return 1
	}
	return 2
}

// cornerInfo is what is known of a corner before any fact: what moved, in words, whose signal it is, and how it is put
// right. Texts take the placeholders of diag.Fill.
type cornerInfo struct {
	corner Corner
	moved  string
	signal diag.Signal
	repair []Repair
}

const (
	again    = "`gpuaasctl diag trust {node_id} --profile {profile}`"
	reenroll = "`gpuaasctl node reenroll {node_id} --profile {profile} --reason \"trust repaired\" --apply --confirm {node_id}`"
	renderCA = "render one CA into the API's signing config, the bootstrap bundle and the ingress's trust secret, then restart or reload both; a reload that keeps an old file repairs nothing"
	lookOnce = "look again before any node is touched: " + again
	notAlone = "leave the nodes alone until the control plane matches; then re-enroll only those that are still refused: " + reenroll
)

var cornerRows = [...]cornerInfo{
	{CornerEndpoint, "the node's endpoint profile: it talks to another environment, or to the public edge", diag.SigEndpointProfileDrift, []Repair{
		{atNode, "compare the running agent's URLs with the profile's: `{ssh} grep _URL= {env_file}`"},
		{atNode, "carry an audited bundle, which rewrites endpoints and CA material together: " + reenroll},
	}},
	{CornerEnvironment, "where the node's name leads: the same name is another listener there", diag.SigAPIUnreachable, []Repair{
		{atProfile, "make sure that the profile's addresses are the active ones: `gpuaasctl profile show {profile} --origin`"},
		{atNode, "see what names the node has, and who gave them: `gpuaasctl node endpoints plan {node_id} --profile {profile}`"},
		{atNode, "repair the DNS zone, or put the private names in place: `gpuaasctl node endpoints apply {node_id} --profile {profile}`"},
	}},
	{CornerEdge, "the node API's certificate: it was changed to an issuer that nobody holds, or ran out", diag.SigAPITLSFailed, []Repair{
		{atControlPlane, "see what the listener shows: `openssl s_client -connect {api_addr} -servername {api_host} -showcerts </dev/null`; if it is not the one that was meant, restore it and reload the ingress"},
		{atControlPlane, "if it was meant, add its issuer to the bundle that the platform hands out before the old one goes (overlap old and new)"},
		{atProfile, "put the new issuer into the profile's trust.node_ca, and the new leaf into trust.node_api_server_fingerprint; then " + again},
		{atNode, "only then give nodes the new bundle: " + reenroll},
	}},
	{CornerEdgePin, "the node API's certificate was renewed by the same issuer; only the profile's pin is of before", diag.SigAPITLSFailed, []Repair{
		{atProfile, "confirm the renewal with whoever owns the edge, then set trust.node_api_server_fingerprint to the leaf's sha256: `gpuaasctl diag trust {node_id} --profile {profile} -o json`"},
	}},
	{CornerProfileCA, "the profile's trust.node_ca is of before: the pinned leaf does not verify by it", diag.SigAPITLSFailed, []Repair{
		{atProfile, "replace the file that trust.node_ca names by the active bundle, then " + again},
	}},
	{CornerBundle, "the node's bundle: it is stale, missing or broken", diag.SigAPITLSFailed, []Repair{
		{atControlPlane, "see first whether every node complains: then the listener's certificate is at fault, not this bundle"},
		{atNode, "see the chain against the node's bundle: `{ssh} openssl s_client -connect {api_addr} -servername {api_host} -CAfile {ca_bundle} -verify_return_error -brief`"},
		{atNode, "rewrite bundle, endpoints and token together: " + reenroll},
	}},
	{CornerRecovery, "the node's recovery bundle: a node that lost its trust could not enroll by itself", diag.SigAPITLSFailed, []Repair{
		{atNode, "carry an audited bundle, which brings the recovery trust as well: " + reenroll},
	}},
	{CornerCredential, "the node's certificate: its dates, its key, its binding, or it is of an earlier signing CA", diag.SigAuthFailed, []Repair{
		{atNode, "read it: `{ssh} openssl x509 -in {cert} -noout -dates -subject -issuer -serial`; when the dates look wrong, compare the clocks first"},
		{atNode, "re-enroll the node: " + reenroll},
	}},
	{CornerSigning, "the signing CA: the platform signs with another one than before (restarted without its persisted CA?)", diag.SigIngressCADrift, []Repair{
		{atControlPlane, "restore the persisted signing CA, certificate and key together, and restart the API; nodes then go on with the certificates that they have"},
		{atControlPlane, "if the new CA is meant: " + renderCA + ", old and new side by side until every node has a new certificate"},
		{atControlPlane, lookOnce},
		{atProfile, "if the new CA is meant, set trust.signing_ca_fingerprint and trust.ingress_ca_fingerprint to it"},
		{atNode, notAlone},
	}},
	{CornerIngress, "the ingress CA: the ingress takes certificates of another CA than the one that signs", diag.SigIngressCADrift, []Repair{
		{atControlPlane, renderCA},
		{atControlPlane, lookOnce},
		{atNode, notAlone},
	}},
	{CornerControl, "signing CA and ingress CA differ, and nothing says which of them moved", diag.SigIngressCADrift, []Repair{
		{atControlPlane, "find out which of the two was changed last; " + renderCA},
		{atControlPlane, lookOnce},
		{atProfile, "pin both, so that the next time one can be named: trust.signing_ca_fingerprint, trust.ingress_ca_fingerprint"},
		{atNode, notAlone},
	}},
	{CornerDenied, "the platform's word on this node: certificates match, and its identity is refused", diag.SigAuthFailed, []Repair{
		{atControlPlane, "read why the platform denies it, and settle that first: `gpuaasctl node status {node_id} --profile {profile}`"},
		{atNode, "re-enroll only an identity that is accepted again; a revoked, fenced or cloned one is for security to decide"},
	}},
	{CornerTerminal, "the terminal listener: its certificate or its list of CAs is another one than the node API's", diag.SigNodeStreamMTLS, []Repair{
		{atControlPlane, "render the signing CA and the listener's certificate into the terminal gateway as into the node API's ingress, and restart it"},
	}},
	{CornerPins, "nothing but the pins: all sides agree, and the profile says otherwise", diag.SigIngressCADrift, []Repair{
		{atProfile, "find out whether the change was meant; if it was, set trust.signing_ca_fingerprint and trust.ingress_ca_fingerprint to what is active; if not, this is an incident: nothing on the nodes is to be changed"},
	}},
}

// cornerRow finds a corner's row; one that has none is empty.
func cornerRow(c Corner) cornerInfo {
	for _, r := range cornerRows {
		if r.corner == c {
			return r
		}
	}
	return cornerInfo{corner: c}
}
