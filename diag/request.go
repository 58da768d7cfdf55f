package diag

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// View is the environment from which a probe on the node sees the machine. A service with bind mounts may see other
// files than a login does.
type View string

const (
	ViewAgent View = "agent" // the running agent's mount namespace and environment (the default on a node)
	ViewHost  View = "host"  // as a login sees it
)

// Request is one measurement as data; it is executed where it is sent. All fields except ID, TimeoutMS and Fresh are
// inputs: a proof is a failing and a passing request that differ in exactly one input, and requests that differ in none
// are repetitions. Target and Body may contain ${NAME} for the names in probe.EnvNames, which the probe expands from
// the running agent's environment.
type Request struct {
	ID     string `json:"id"`
	Op     Op     `json:"op"`
	Target string `json:"target,omitempty"`

	View View `json:"view,omitempty"`
	// host: use the machine's network namespace, and everything else as in View
	Network    View   `json:"network,omitempty"`
	Resolve    string `json:"resolve,omitempty"`     // IP address to use without a look-up
	Resolver   string `json:"resolver,omitempty"`    // DNS server host:port to use instead of the host's configuration
	ServerName string `json:"server_name,omitempty"` // SNI and verified name, if not Target's host
	CABundle   string `json:"ca_bundle,omitempty"`   // path on the probing machine; empty: the host's root certificates
	CAInline   string `json:"ca_inline,omitempty"`   // PEM sent with the request, instead of CABundle
	// bytes of a TCP segment at most, in both directions (TCP_MAXSEG), for OpPath; 0: what fits the interface
	MSS int `json:"mss,omitempty"`
	// continue after a failed verification, to inspect a bad chain; the failure is still reported
	TLSLook bool   `json:"tls_look,omitempty"`
	Cert    string `json:"cert,omitempty"` // path of the client certificate
	Key     string `json:"key,omitempty"`  // path of its key; read on the probing machine, never sent

	Method string            `json:"method,omitempty"` // default GET
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
	// query to append to the URL in Target, secret because third-party links carry credentials there
	Query Secret `json:"query,omitzero"`
	// sent as Authorization: Bearer, or as a bearer.<token> subprotocol
	Token  Secret `json:"token,omitzero"`
	Cookie Secret `json:"cookie,omitzero"` // edge cookie, sent as Cookie
	// send Token, Cookie and Query without TLS to another machine, where anybody on the way can read them
	InsecureHTTP bool `json:"insecure_http,omitempty"`
	// name -> gjson path, on a node a simple one (a.0.b); of an answer, only these fields are kept
	Extract map[string]string `json:"extract,omitempty"`
	// the name of the one extracted value that is a Secret (HTTPFacts.Kept)
	Keep         string   `json:"keep,omitempty"`
	Poll         *Poll    `json:"poll,omitempty"` // repeat until a field has a final value
	Subprotocols []string `json:"subprotocols,omitempty"`
	// of OpSession: the terminal; nil: as on the reference platform
	Terminal *Terminal `json:"terminal,omitempty"`

	Unit   string   `json:"unit,omitempty"`    // the agent's unit, for operations that need its process
	NodeID string   `json:"node_id,omitempty"` // node id that a certificate must be bound to
	Env    []string `json:"env,omitempty"`
	Write  int      `json:"write_bytes,omitempty"` // bytes that OpDisk writes, syncs and removes
	// a folder that another OpDisk measures; if it is on the same file system, nothing is written
	Beside   string   `json:"beside,omitempty"`
	Limit    int      `json:"limit,omitempty"`    // entries or lines
	Since    Time     `json:"since,omitzero"`     // for a journal: the oldest line; for a judgement: its time
	Match    []string `json:"match,omitempty"`    // for a journal: only lines that contain one of these texts
	Evidence bool     `json:"evidence,omitempty"` // for GPUs: return raw events to be judged
	// Events are the input of OpGPUJudge. They are copied from a fact, and are never sent.
	Events    []json.RawMessage `json:"-"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
	Fresh     bool              `json:"fresh,omitempty"` // use a new connection, so that every phase is measured

	// VersionCommand is the profile's command that prints the version of a third-party agent, for OpBinary. Only a
	// helper that the operator started runs it.
	VersionCommand []string `json:"version_command,omitempty"`

	// Command is what OpCommand runs. Socket is a container runtime's, for OpContainer; "": the usual ones.
	Command *Program `json:"command,omitempty"`
	Socket  string   `json:"socket,omitempty"`
}

// Poll repeats an HTTP exchange until the extracted Field has one of the values in Until, ignoring case, or a value
// other than Unlike if that is set, or the request's time is up.
type Poll struct {
	Field   string   `json:"field"`
	Until   []string `json:"until"`
	Unlike  string   `json:"unlike,omitempty"` // a previous value; any other ends the poll
	EveryMS int64    `json:"every_ms"`
}

// noInputs are the fields that cannot be the cause of a failure: the timeout is ours, and so is the reuse of a
// connection.
var noInputs = []string{"id", "timeout_ms", "fresh"}

// Inputs returns the request's inputs by wire name, without noInputs.
func (r Request) Inputs() map[string]any {
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	m := map[string]any{}
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	for _, name := range noInputs {
		delete(m, name)
	}
	return m
}

// Changed returns the wire names, sorted, of the inputs that differ between two requests as a report shows them.
func Changed(a, b *Request) []string {
	var names []string
	note := func(name string, same bool) {
		if !same {
			names = append(names, name)
		}
	}
	note("beside", a.Beside == b.Beside)
	note("body", a.Body == b.Body)
	note("ca_bundle", a.CABundle == b.CABundle)
	note("ca_inline", a.CAInline == b.CAInline)
	note("cert", a.Cert == b.Cert)
	note("command", a.Command.same(b.Command))
	note("cookie", a.Cookie.IsZero() == b.Cookie.IsZero())
	note("env", slices.Equal(a.Env, b.Env))
	note("evidence", a.Evidence == b.Evidence)
	note("extract", maps.Equal(a.Extract, b.Extract))
	note("header", maps.Equal(a.Header, b.Header))
	note("insecure_http", a.InsecureHTTP == b.InsecureHTTP)
	note("keep", a.Keep == b.Keep)
	note("key", a.Key == b.Key)
	note("limit", a.Limit == b.Limit)
	note("match", slices.Equal(a.Match, b.Match))
	note("method", a.Method == b.Method)
	note("mss", a.MSS == b.MSS)
	note("network", a.Network == b.Network)
	note("node_id", a.NodeID == b.NodeID)
	note("op", a.Op == b.Op)
	note("poll", a.Poll.same(b.Poll))
	note("query", a.Query.IsZero() == b.Query.IsZero())
	note("resolve", a.Resolve == b.Resolve)
	note("resolver", a.Resolver == b.Resolver)
	note("server_name", a.ServerName == b.ServerName)
	note("since", a.Since == b.Since || At(a.Since.Time).Equal(At(b.Since.Time).Time))
	note("socket", a.Socket == b.Socket)
	note("subprotocols", slices.Equal(a.Subprotocols, b.Subprotocols))
	note("target", a.Target == b.Target)
	note("terminal", reflect.DeepEqual(a.Terminal, b.Terminal))
	note("tls_look", a.TLSLook == b.TLSLook)
	note("token", a.Token.IsZero() == b.Token.IsZero())
	note("unit", a.Unit == b.Unit)
	note("version_command", slices.Equal(a.VersionCommand, b.VersionCommand))
	note("view", a.View == b.View)
	note("write_bytes", a.Write == b.Write)
	return names
}

func (p *Poll) same(q *Poll) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.Field == q.Field && p.Unlike == q.Unlike && p.EveryMS == q.EveryMS && slices.Equal(p.Until, q.Until)
}

func (c *Program) same(d *Program) bool {
	if c == nil || d == nil {
		return c == d
	}
	return slices.Equal(c.Argv, d.Argv) && c.As == d.As && c.LimitMS == d.LimitMS && c.Most == d.Most
}
