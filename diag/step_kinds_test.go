package diag

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stepKind is a kind of repair, recognized by its words and commands, and the failures for which it is not given.
type stepKind struct {
	name   string
	is     *regexp.Regexp
	except []Signal                // rows whose fault is this, whatever the probe met
	never  func(s *Situation) bool // what rules the kind out
}

func failsAs(words ...Failure) func(*Situation) bool {
	return func(s *Situation) bool { return slices.Contains(words, s.Failure) }
}

func shows(d Detail) func(*Situation) bool {
	return func(s *Situation) bool { return slices.Contains(s.Details, d) }
}

// startsWith reports whether the failure is of a family: "tls_".
func startsWith(families ...string) func(*Situation) bool {
	return func(s *Situation) bool {
		return slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(string(s.Failure), f) })
	}
}

func anyOf(all ...func(*Situation) bool) func(*Situation) bool {
	return func(s *Situation) bool {
		return slices.ContainsFunc(all, func(f func(*Situation) bool) bool { return f(s) })
	}
}

func not(f func(*Situation) bool) func(*Situation) bool {
	return func(s *Situation) bool { return !f(s) }
}

// stepKinds is the closed list of kinds that a failure can rule out.
var stepKinds = [...]stepKind{
	{"re-enroll", regexp.MustCompile("node reenroll"), []Signal{SigTerminalProfileDrift, SigEndpointProfileDrift},
		anyOf(failsAs(TLSExpired, TLSNotYetValid, TLSNameMismatch), shows(DetailOtherCAAlike))},
	{"client CA", regexp.MustCompile("client CA of"), nil, startsWith("tls_")},
	{"renew the server's certificate", regexp.MustCompile("renew the certificate that"), nil, not(failsAs(TLSExpired))},
	{"restart", regexp.MustCompile(`systemctl restart \{unit\}`), []Signal{SigBinaryInvalid},
		anyOf(failsAs(UnitMissing), shows(DetailMasked))},
	{"unmask", regexp.MustCompile("systemctl unmask"), nil, not(shows(DetailMasked))},
	{"thaw", regexp.MustCompile("systemctl thaw"), nil, not(shows(DetailFrozen))},
	{"listening", regexp.MustCompile("does it listen"), nil,
		anyOf(startsWith("ssh_auth", "ssh_exec", "ssh_host", "ssh_penalty"), shows(DetailBannerStall), shows(DetailKeyStall),
			shows(DetailAuthStall), shows(DetailExecStall))},
	{"packet size", regexp.MustCompile("don't-fragment"), nil, func(s *Situation) bool {
		return s.Side != SideNetwork && !slices.Contains(s.Details, DetailTLSStall)
	}},
	{"name look-up", regexp.MustCompile("getent ahosts|name look-up|fix the look-up"), nil,
		startsWith("tcp_", "tls_", "mtls_", "http_", "ws_")},
	{"route", regexp.MustCompile("ip route get"), nil,
		anyOf(startsWith("dns_", "tls_", "mtls_", "http_", "ws_"), shows(DetailTLSStall))},
	{"firewall", regexp.MustCompile("(VPN|port) or firewall|route, VPN"), nil,
		startsWith("tls_", "mtls_", "http_", "ws_")},
	{"architecture", regexp.MustCompile("uname -m"), nil, failsAs(BinaryNotExecutable, BinaryMissing, FileMissing)},
	{"make it executable", regexp.MustCompile("make it executable"), nil, not(failsAs(BinaryNotExecutable))},
	{"room on the disk", regexp.MustCompile("vacuum-size|what uses the space"), nil, failsAs(DiskReadOnly, DiskInodes)},
	{"the unit's settings", regexp.MustCompile("that setting in the agent's unit"), nil,
		anyOf(shows(DetailDenyingRoute), shows(DetailDenyingFilter))},
}

// shownBeside has the details that a fact with this failure can have.
func shownBeside(f Failure) []Detail {
	none := []Detail{""}
	switch f {
	case UnitInactive, UnitFailed, UnitMissing:
		return append(none, DetailMasked)
	case ProcessStopped:
		return append(none, DetailFrozen)
	case MTLSCertRejected:
		return append(none, DetailNotForClients)
	case TCPDenied:
		return append(none, DetailDenyingRoute, DetailDenyingFilter)
	case TLSUnknownCA:
		return append(none, DetailOtherCAAlike)
	case Timeout:
		return append(none, DetailTLSStall, DetailBannerStall, DetailKeyStall, DetailAuthStall, DetailExecStall)
	}
	return none
}

// excluded are the aspects that the deciding fact rules out beside its failure, as the verdict lists them.
func excluded(d Detail) []Aspect {
	switch d {
	case DetailTLSStall, DetailBannerStall, DetailKeyStall, DetailAuthStall, DetailExecStall:
		return []Aspect{AboutName, AboutPath}
	}
	return nil
}

// TestStepsAreOfTheFailure: for every signal, failure, detail, side and network that a blame can have, no step is of a
// kind that the failure or the detail rules out. Each kind is given somewhere.
func TestStepsAreOfTheFailure(t *testing.T) {
	given := map[string]bool{}
	for _, r := range Signals() {
		for _, f := range append([]Failure{OK}, r.Failures...) {
			for _, d := range shownBeside(f) {
				for i, side := range allSides {
					s := Situation{Failure: f, Side: side, Details: []Detail{d}, RuledOut: excluded(d),
						Network: []Network{NetworkOperator, NetworkNode, NetworkAgent}[i%3]}
					checkKinds(t, &r, &s, given)
				}
			}
		}
	}
	for i := range stepKinds {
		if !given[stepKinds[i].name] {
			t.Errorf("no step is of the kind %q", stepKinds[i].name)
		}
	}
}

func checkKinds(t *testing.T, r *SignalRow, s *Situation, given map[string]bool) {
	t.Helper()
	for _, step := range r.Steps(*s) {
		for i := range stepKinds {
			k := &stepKinds[i]
			if slices.Contains(k.except, r.Signal) || !k.is.MatchString(step.template()) {
				continue
			}
			if given[k.name] = true; k.never(s) {
				t.Errorf("%s, %s %s on the side %q: %q is of the kind %q", r.Signal, s.Failure, s.Details[0], s.Side, step.Text,
					k.name)
			}
		}
	}
}

// TestFirstStepIsOfTheFailure: the first step is about what failed, and not about its signal in general.
func TestFirstStepIsOfTheFailure(t *testing.T) {
	for _, c := range []struct {
		sig   Signal
		s     Situation
		first string
	}{
		{SigProcessDown, Situation{Failure: UnitInactive, Details: []Detail{DetailMasked}}, "systemctl unmask"},
		{SigProcessDown, Situation{Failure: ProcessStopped, Details: []Detail{DetailFrozen}}, "systemctl thaw"},
		{SigProcessDown, Situation{Failure: UnitFailed}, "systemctl status"},
		{SigAPITLSFailed, Situation{Failure: TLSExpired}, "renew the certificate"},
		{SigAPITLSFailed, Situation{Failure: TLSNameMismatch}, "for the name that the node uses"},
		{SigNodeStreamMTLS, Situation{Failure: TLSExpired}, "renew the certificate"},
		{SigAPIUnreachable, Situation{Failure: TCPNoRoute}, "ip route get"},
		{SigNodeStreamTimeout, Situation{Failure: TCPNetUnreachable}, "ip route get"},
		{SigAPIUnreachable, Situation{Failure: Timeout, Details: []Detail{DetailTLSStall}}, "large packets"},
		{SigAgentConfined, Situation{Failure: TCPDenied, Network: NetworkNode, Details: []Detail{DetailDenyingRoute}},
			"ip route get"},
		{SigAgentConfined, Situation{Failure: TCPDenied, Network: NetworkAgent, Details: []Detail{DetailDenyingFilter}},
			"nft list"},
		{SigOperatorMachine, Situation{Failure: TCPDenied, Network: NetworkOperator, Details: []Detail{DetailDenyingRoute}},
			"ip route get"},
		{SigOpsSSHFailed, Situation{Failure: Timeout, Details: []Detail{DetailExecStall}, RuledOut: []Aspect{AboutPath}},
			"session"},
		{SigOpsSSHFailed, Situation{Failure: SSHPenalty}, "penalty"},
		{SigBinaryInvalid, Situation{Failure: BinaryNotExecutable}, "make it executable"},
	} {
		row, _ := LookupSignal(c.sig)
		if first := row.Steps(c.s)[0].template(); !strings.Contains(first, c.first) {
			t.Errorf("%s in %+v: the first step is %q, want %q", c.sig, c.s, first, c.first)
		}
	}
}
