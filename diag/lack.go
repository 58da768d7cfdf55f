package diag

// Lack is why a walk decides nothing although nobody is to blame: what it lacked to measure.
type Lack string

// The closed list of lacks, the most telling first.
const (
	LackTime    Lack = "time"    // the walk was ended before it was done
	LackLogin   Lack = "login"   // an edge asks for a login, and the operator gave none
	LackLimit   Lack = "limit"   // a limiter turned the operator away
	LackRights  Lack = "rights"  // the operator's token, or the login on the node, may not read what was asked
	LackSubject Lack = "subject" // the platform does not know what was asked about
	LackMapping Lack = "mapping" // the answer lacks a field that the profile maps
	LackPlan    Lack = "plan"    // nothing was planned, or nothing of it could begin
	LackNode    Lack = "node"    // the node did not answer a question over a login that works
	LackAnswer  Lack = "answer"  // an answer came, and does not say what was asked
)

// LackRow is who supplies what a walk lacked, and how. Steps are templates for Fill.
type LackRow struct {
	Lack  Lack
	Owner string
	Steps []string
}

var lackRows = [...]LackRow{
	{LackTime, ownerOperator, []string{"walk again and let it finish (--deadline gives it more time): `{preflight}`"}},
	{LackLogin, ownerOperator, []string{
		"log in at the edge, save its cookie to a file of mode 0600, and name that file in the profile (auth.edge_cookie_file); for the API, name an address that asks for no browser login (api_base)",
		"walk again: `{preflight}`",
	}},
	{LackLimit, ownerOperator + ", " + ownerEdge, []string{
		"wait as long as the limiter asks, then walk again: `{preflight}`",
		"if it goes on, ask the edge's owner which rule matched, by the correlation id {correlation_id}",
	}},
	{LackRights, ownerOperator, []string{
		"give the walk the rights that the text names: a token with the admin scope (auth.token_file), or a login that may become root on the node (ssh.sudo)",
		"walk again: `{preflight}`",
	}},
	{LackSubject, ownerOperator, []string{"check the names of node and allocation: the platform does not know one of them"}},
	{LackMapping, ownerProfile, []string{
		"compare the platform's answer with mapping.fields of the profile; the text names the field",
		"check the profile: `gpuaasctl profile validate {profile}`",
	}},
	{LackPlan, ownerOperator, []string{"choose what to walk: a profile with an API base and a node, or fewer hops left out (--only, --skip)"}},
	{LackNode, ownerNode, []string{
		"check whether the node is overloaded, or one of its disks hangs: `{ssh} uptime`",
		"walk again: `{preflight}`",
	}},
	{LackAnswer, ownerOperator, []string{
		"read the undecided facts in full: `{preflight} -o wide`",
		"follow the correlation id {correlation_id} through the platform's log",
	}},
}

// Lacks returns every row, in the order of the constants.
func Lacks() []LackRow { return append([]LackRow{}, lackRows[:]...) }

// LookupLack returns the row of l, and whether there is one.
func LookupLack(l Lack) (LackRow, bool) {
	for _, r := range lackRows {
		if r.Lack == l {
			return r, true
		}
	}
	return LackRow{}, false
}
