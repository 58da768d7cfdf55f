package diag

// Detail is what the deciding fact of a blame shows beside its failure, as far as it decides about steps.
type Detail string

// The closed list of what a fact shows.
const (
	DetailMasked        Detail = "unit_masked"      // the unit cannot be started until it is unmasked
	DetailFrozen        Detail = "unit_frozen"      // the processes of the unit's cgroup are frozen
	DetailDenyingRoute  Detail = "denied_by_route"  // a route of the measuring machine denies the address
	DetailDenyingFilter Detail = "denied_by_filter" // a packet filter, and no route, may deny the address
	DetailOtherCAAlike  Detail = "other_ca_alike"   // the profile's CA does not verify the server either
	DetailSearchList    Detail = "search_list"      // resolv.conf's search list made another name of the one asked
	DetailNoIssuer      Detail = "issuer_not_presented"
	DetailNotForClients Detail = "not_for_clients"   // the extended key usage of the node's certificate lacks clients
	DetailTokenLost     Detail = "token_not_arrived" // a token of a moment ago is refused as none, or as a wrong one
	DetailProxy         Detail = "proxy_not_used"    // the environment names a proxy, which the request did not use
	DetailTLSStall      Detail = "timeout_in_tls"    // the connection was accepted, and the handshake got no answer
	DetailBannerStall   Detail = "timeout_in_banner"
	DetailKeyStall      Detail = "timeout_in_host_key"
	DetailAuthStall     Detail = "timeout_in_auth"
	DetailExecStall     Detail = "timeout_in_exec"
)

// AllDetails has every word once.
var AllDetails = [...]Detail{DetailMasked, DetailFrozen, DetailDenyingRoute, DetailDenyingFilter, DetailOtherCAAlike,
	DetailSearchList, DetailNoIssuer, DetailNotForClients, DetailTokenLost, DetailProxy, DetailTLSStall, DetailBannerStall,
	DetailKeyStall, DetailAuthStall, DetailExecStall}
