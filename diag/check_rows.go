package diag

// CheckRow is a well-known command of the catalogue of checks: `use: NAME` in a profile. Its output is read by the
// parser of its protocol.
type CheckRow struct {
	Name     string
	Title    string
	Argv     []string // with its usual path; a profile may set another one
	Protocol string
	Owner    string
	Shows    string // what a pass shows
	Slow     bool   // it takes longer than a walk's budget: it needs a budget of its own
}

// Protocols of commands.
const (
	ProtocolExit   = "exit"
	ProtocolNagios = "nagios"
	ProtocolNPD    = "npd"
	ProtocolJSON   = "json"
)

// CheckProtocols lists the protocols, and how each is read.
var CheckProtocols = [...]struct{ Name, Means string }{
	{ProtocolExit, "the exit code alone, by the map exit (default: 0 passes, every other code fails)"},
	{ProtocolNagios, "a monitoring plugin: exit 0 ok, 1 warning, 2 critical, 3 unknown; text and performance data"},
	{ProtocolNPD, "a custom plugin of node-problem-detector: exit 0 ok, 1 problem, 2 unknown; a message"},
	{ProtocolJSON, `one object with status (pass, warn, fail or inconclusive), message, and metrics (name to number)`},
}

// CheckRows lists the catalogue.
var CheckRows = [...]CheckRow{
	{"nhc", "The node health check passes", []string{"/usr/sbin/nhc", "-d"}, ProtocolExit, "node runtime",
		"every check of the node's nhc.conf passes", true},
}

// LookupCheck returns the row of the catalogue with this name.
func LookupCheck(name string) (CheckRow, bool) {
	for _, row := range CheckRows {
		if row.Name == name {
			return row, true
		}
	}
	return CheckRow{}, false
}
