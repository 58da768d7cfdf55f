package diag

import (
	"encoding/json"
	"reflect"
	"sort"
)

// Op names a measurement. One op is one function of package probe.
type Op string

const (
	OpDNS     Op = "dns"     // look up Target (a name), by the host's own rules or by Resolver
	OpTCP     Op = "tcp"     // dns, then connect to Target (host:port)
	OpTLS     Op = "tls"     // dns, tcp, then a TLS handshake
	OpHTTP    Op = "http"    // dns, tcp, tls, then one HTTP exchange (or a poll) with Target (a URL); Cert makes it mTLS
	OpWS      Op = "ws"      // as http, then a WebSocket upgrade only; closed at once
	OpSession Op = "session" // as ws, then a whole terminal session: first frame, a computed nonce through the PTY, close
	OpSSH     Op = "ssh"     // tcp, banner, host key, auth, exec: how a node vantage got where it is
	OpDisk    Op = "disk"    // space, inodes and a real write at Target (a folder)
	OpFile    Op = "file"    // existence, mode, digest of Target (a path); its text is never returned
	OpCert    Op = "cert"    // Cert and Key as a pair: dates, subject, issuer, whether they match
	OpUnit    Op = "unit"    // systemd's word on Target (a unit) and the state of its main process
	OpBinary  Op = "binary"  // Target (a program) as far as it can be read: is it whole, for this machine, ours; it is never run
	OpUser    Op = "user"    // Target (a login name) by getent, and its shell
	OpClock   Op = "clock"   // this host's wall clock (the vantage adds the offset to the operator's)
	OpEnv     Op = "env"     // the names in Env, of the agent's process; values of secrets as presence and age
	OpRecord  Op = "record"  // the diagnostic record in Target (a folder): its newest Limit entries and the pinned ones
	OpJournal Op = "journal" // the newest Limit lines of Target (a unit, or an absolute path of a log file) since Since
)

// Ops lists every measurement, in the order above.
var Ops = [...]Op{
	OpDNS, OpTCP, OpTLS, OpHTTP, OpWS, OpSession, OpSSH,
	OpDisk, OpFile, OpCert, OpUnit, OpBinary, OpUser, OpClock, OpEnv,
	OpRecord, OpJournal,
}

// View says whose eyes a node-side probe uses. A service under a bind mount sees another file than a login does.
type View string

const (
	ViewAgent View = "agent" // the running agent's mount namespace and environment (the default on a node)
	ViewHost  View = "host"  // as a login sees it
)

// Request is one measurement as data: it runs where it is sent. Every field but ID is an input; a proof is a
// failing and a passing request that differ in exactly one of them. Target and Body may hold ${NAME} for the
// names in probe.EnvNames; the probe expands them from the running agent's environment.
type Request struct {
	ID     string `json:"id"`
	Op     Op     `json:"op"`
	Target string `json:"target,omitempty"`

	View       View   `json:"view,omitempty"`
	Resolve    string `json:"resolve,omitempty"`     // IP address used in place of the look-up
	Resolver   string `json:"resolver,omitempty"`    // DNS server host:port used in place of the host's own rules
	ServerName string `json:"server_name,omitempty"` // SNI and verified name in place of Target's host
	CABundle   string `json:"ca_bundle,omitempty"`   // path where the probe runs; empty: the host's own roots
	CAInline   string `json:"ca_inline,omitempty"`   // PEM sent along, in place of CABundle
	TLSLook    bool   `json:"tls_look,omitempty"`    // go on after a failed verification, to look at a bad chain; the failure still stands
	Cert       string `json:"cert,omitempty"`        // path of the client certificate
	Key        string `json:"key,omitempty"`         // path of its key; read where the probe runs, never sent

	Method       string            `json:"method,omitempty"` // default GET
	Header       map[string]string `json:"header,omitempty"`
	Body         string            `json:"body,omitempty"`
	Query        Secret            `json:"query,omitzero"`    // added to Target, a URL: links of other people carry logins there
	Token        Secret            `json:"token,omitzero"`    // sent as Authorization: Bearer, or as a bearer.<token> subprotocol
	Cookie       Secret            `json:"cookie,omitzero"`   // edge cookie, sent as Cookie
	Extract      map[string]string `json:"extract,omitempty"` // name -> gjson path, on a node a plain one (a.0.b); only these fields of an answer are kept
	Keep         string            `json:"keep,omitempty"`    // the one extracted name whose value is a Secret (HTTPFacts.Kept)
	Poll         *Poll             `json:"poll,omitempty"`    // repeat until a field has a final value
	Subprotocols []string          `json:"subprotocols,omitempty"`

	Unit      string   `json:"unit,omitempty"`    // the agent's unit, where the op needs its process
	NodeID    string   `json:"node_id,omitempty"` // what a certificate must be bound to
	Env       []string `json:"env,omitempty"`
	Write     int      `json:"write_bytes,omitempty"` // bytes really written, synced and removed by OpDisk
	Beside    string   `json:"beside,omitempty"`      // a folder that another OpDisk measures: nothing is written on its file system again
	Limit     int      `json:"limit,omitempty"`       // entries or lines
	Since     Time     `json:"since,omitzero"`        // of a journal
	Match     []string `json:"match,omitempty"`       // of a journal: only lines that hold one of these texts
	TimeoutMS int64    `json:"timeout_ms,omitempty"`

	// VersionCommand is the profile's argv that prints the version of an agent that is not ours, for OpBinary. Only a
	// helper that the operator started runs it.
	VersionCommand []string `json:"version_command,omitempty"`
}

// Poll repeats an HTTP exchange until the extracted Field has one of the values in Until, in whatever case, or the
// request's time is up.
type Poll struct {
	Field   string   `json:"field"`
	Until   []string `json:"until"`
	EveryMS int64    `json:"every_ms"`
}

// Inputs returns the request's inputs by wire name; ID is not one.
func (r Request) Inputs() map[string]any {
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	m := map[string]any{}
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	delete(m, "id")
	delete(m, "timeout_ms") // how long we are willing to wait is not a cause
	return m
}

// Changed lists, sorted, the wire names of the inputs in which a and b differ.
func Changed(a, b Request) []string {
	am, bm := a.Inputs(), b.Inputs()
	var names []string
	for k, v := range am {
		if w, ok := bm[k]; !ok || !reflect.DeepEqual(v, w) {
			names = append(names, k)
		}
	}
	for k := range bm {
		if _, ok := am[k]; !ok {
			names = append(names, k)
		}
	}
	sort.Strings(names)
	return names
}
