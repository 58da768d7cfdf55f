package diag

import (
	"encoding/json"
	"maps"
	"slices"
)

// View reports whose eyes a node-side probe uses. A service under a bind mount sees another file than a login does.
type View string

const (
	ViewAgent View = "agent" // the running agent's mount namespace and environment (the default on a node)
	ViewHost  View = "host"  // as a login sees it
)

// Request is one measurement as data: it runs where it is sent. Every field but ID is an input; a proof is a failing
// and a passing request that differ in exactly one of them; requests that differ in none are repetitions. TimeoutMS
// and Fresh are not inputs either. Target and Body may hold ${NAME} for the names in probe.EnvNames; the probe
// expands them from the running agent's environment.
type Request struct {
	ID     string `json:"id"`
	Op     Op     `json:"op"`
	Target string `json:"target,omitempty"`

	View       View   `json:"view,omitempty"`
	Network    View   `json:"network,omitempty"`     // host: the machine's network namespace, with all else as in View
	Resolve    string `json:"resolve,omitempty"`     // IP address used in place of the look-up
	Resolver   string `json:"resolver,omitempty"`    // DNS server host:port used in place of the host's own rules
	ServerName string `json:"server_name,omitempty"` // SNI and verified name in place of Target's host
	CABundle   string `json:"ca_bundle,omitempty"`   // path where the probe runs; empty: the host's own roots
	CAInline   string `json:"ca_inline,omitempty"`   // PEM sent along, in place of CABundle
	// go on after a failed verification, to look at a bad chain; the failure still holds
	TLSLook bool   `json:"tls_look,omitempty"`
	Cert    string `json:"cert,omitempty"` // path of the client certificate
	Key     string `json:"key,omitempty"`  // path of its key; read where the probe runs, never sent

	Method string            `json:"method,omitempty"` // default GET
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
	// added to Target, a URL: links of other people carry logins there
	Query Secret `json:"query,omitzero"`
	// sent as Authorization: Bearer, or as a bearer.<token> subprotocol
	Token  Secret `json:"token,omitzero"`
	Cookie Secret `json:"cookie,omitzero"` // edge cookie, sent as Cookie
	// name -> gjson path, on a node a plain one (a.0.b); only these fields of an answer are kept
	Extract map[string]string `json:"extract,omitempty"`
	// the one extracted name whose value is a Secret (HTTPFacts.Kept)
	Keep         string   `json:"keep,omitempty"`
	Poll         *Poll    `json:"poll,omitempty"` // repeat until a field has a final value
	Subprotocols []string `json:"subprotocols,omitempty"`

	Unit   string   `json:"unit,omitempty"`    // the agent's unit, where the op needs its process
	NodeID string   `json:"node_id,omitempty"` // what a certificate must be bound to
	Env    []string `json:"env,omitempty"`
	Write  int      `json:"write_bytes,omitempty"` // bytes really written, synced and removed by OpDisk
	// a folder that another OpDisk measures: nothing is written on its file system again
	Beside   string   `json:"beside,omitempty"`
	Limit    int      `json:"limit,omitempty"`    // entries or lines
	Since    Time     `json:"since,omitzero"`     // of a journal; of a judgement, the time at which it is made
	Match    []string `json:"match,omitempty"`    // of a journal: only lines that hold one of these texts
	Evidence bool     `json:"evidence,omitempty"` // of GPUs: raw events to be judged
	// Events are what OpGPUJudge judges. They are in the fact that they come from, and travel nowhere.
	Events    []json.RawMessage `json:"-"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"`
	Fresh     bool              `json:"fresh,omitempty"` // over a connection of its own, so that it measures every phase

	// VersionCommand is the profile's argv that prints the version of an agent that is not ours, for OpBinary. Only a
	// helper that the operator started runs it.
	VersionCommand []string `json:"version_command,omitempty"`
}

// Poll repeats an HTTP exchange until the extracted Field has one of the values in Until, in whatever case, or any
// other than Unlike where that is given, or the request's time is up.
type Poll struct {
	Field   string   `json:"field"`
	Until   []string `json:"until"`
	Unlike  string   `json:"unlike,omitempty"` // the value that is known already
	EveryMS int64    `json:"every_ms"`
}

// noInputs are the fields that cannot be the cause of a failure: neither our timeout nor the reuse of a connection
// can.
var noInputs = []string{"id", "timeout_ms", "fresh"}

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
	for _, name := range noInputs {
		delete(m, name)
	}
	return m
}

// Changed lists, sorted, the wire names of the inputs in which a report shows two requests to differ.
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
	note("cookie", a.Cookie.IsZero() == b.Cookie.IsZero())
	note("env", slices.Equal(a.Env, b.Env))
	note("evidence", a.Evidence == b.Evidence)
	note("extract", maps.Equal(a.Extract, b.Extract))
	note("header", maps.Equal(a.Header, b.Header))
	note("keep", a.Keep == b.Keep)
	note("key", a.Key == b.Key)
	note("limit", a.Limit == b.Limit)
	note("match", slices.Equal(a.Match, b.Match))
	note("method", a.Method == b.Method)
	note("network", a.Network == b.Network)
	note("node_id", a.NodeID == b.NodeID)
	note("op", a.Op == b.Op)
	note("poll", a.Poll.same(b.Poll))
	note("query", a.Query.IsZero() == b.Query.IsZero())
	note("resolve", a.Resolve == b.Resolve)
	note("resolver", a.Resolver == b.Resolver)
	note("server_name", a.ServerName == b.ServerName)
	note("since", a.Since == b.Since || At(a.Since.Time).Equal(At(b.Since.Time).Time))
	note("subprotocols", slices.Equal(a.Subprotocols, b.Subprotocols))
	note("target", a.Target == b.Target)
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
