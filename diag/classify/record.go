package classify

import (
	"cmp"
	"fmt"
	"github.com/gpuaas/gpuaasctl/diag"
	"slices"
	"time"
)

// recorded is the evidence of a diagnostic record, split into what describes the present and what is history.
type recorded struct {
	now  []present // lines of evidence, the newest first
	then []lapsed  // why older entries are history: the newest for each reason
	gone bool      // an entry shows that the node has no current recovery token
	// blocked are lines about failures of enrollment itself; fresh: a newly issued certificate was refused.
	blocked []string
	fresh   bool
	refused *diag.RecordEntry // a heartbeat answered with an HTTP error while other requests succeed
	speaks  bool              // at least one entry has a reason that this build knows
}

// present is an entry's line of evidence for a reason.
type present struct {
	code diag.ReasonCode
	line string
}

// lapsed is why an entry is not evidence about the present.
type lapsed struct {
	code diag.ReasonCode
	why  past
}

// lines returns the lines of evidence for one reason.
func (r *recorded) lines(code diag.ReasonCode) []string {
	var lines []string
	for _, p := range r.now {
		if p.code == code {
			lines = append(lines, p.line)
		}
	}
	return lines
}

// why explains why the newest historic entry for a reason does not count; zero if there is no such entry.
func (r *recorded) why(code diag.ReasonCode) past {
	for i := range r.then {
		if r.then[i].code == code {
			return r.then[i].why
		}
	}
	return past{}
}

// readRecord reads the node's record. An entry is history if the same record has a later good contact, if a later entry
// of the same loop contradicts it, if it is from an earlier boot, or if the checklist point that it contradicts passes.
// A cloned identity survives reboots and contacts, since both machines have them: it ends with a new identity, or with
// an entry that the platform released the node.
func readRecord(e *Evidence, points [len(diag.Points)]diag.CheckPoint) recorded {
	var r recorded
	entries := e.Record
	if len(entries) == 0 {
		return r
	}
	boot := entries[len(entries)-1].BootID
	boot = cmp.Or(e.BootID, boot)
	r.speaks = slices.ContainsFunc(entries, func(n *diag.RecordEntry) bool {
		return slices.Contains(diag.RecordReasons[:], n.Reason)
	})
	last := len(entries) - 1
	type loop struct {
		code  diag.ReasonCode
		about string
	}
	newest := make([]loop, 0, 16) // only the newest entry counts for each reason and loop
	r.then = make([]lapsed, 0, 8)
	accepted := e.accepted()
	for i := last; i >= 0; i-- {
		n := entries[i]
		code := reasonOfEntry(entries, i)
		back := n.Reason == diag.RecShutdown && i != last // the agent restarted
		if code == "" || slices.Contains(newest, loop{code, n.About}) || back {
			continue
		}
		newest = append(newest, loop{code, n.About})
		only := e.onlyHeartbeat(n, code)
		if only && code != diag.ReasonEdgeRateLimited {
			code = diag.ReasonNodeAgentUnreachable
		}
		why := outdated(entries, i, code, boot, points, accepted)
		if hop := refutes(n, code); why.words == "" && hop != "" && passes(e.Probes, hop) {
			why = past{wroteIt, n, ", and " + string(hop) + " passes", nil}
		}
		if why.words == "" {
			why = asOf(e, entries, i, code)
		}
		if why.words != "" {
			if r.why(code).words == "" {
				r.then = append(r.then, lapsed{code, why})
			}
			continue
		}
		if only && n.Status != 0 {
			r.refused = cmp.Or(r.refused, n)
		}
		r.now = append(r.now, present{code, entryLine(n)})
		r.gone = r.gone || n.Reason == diag.RecRecoveryTokenMissing || n.Reason == diag.RecRecoveryTokenExpired
		if code == diag.ReasonRecoveryEnrollmentBlocked ||
			(code == diag.ReasonServerTLSUntrusted && n.About == "identity" && n.Decision == "retry") {
			r.blocked = append(r.blocked, entryLine(n)) // the agent asks for an identity only when it enrolls
		}
		r.fresh = r.fresh || code == diag.ReasonCertUntrustedByIngress
	}
	return r
}

// DecisionContact marks the entry of a good contact: the platform accepted a heartbeat of this node.
const DecisionContact = "contact"

// DecisionDelivered marks an entry whose task result the platform accepted. DecisionContact is about heartbeats only.
const DecisionDelivered = "delivered"

// Released reports whether the entry shows that the platform released a quarantined node, which an operator decides.
func Released(n *diag.RecordEntry) bool {
	return n.Reason == diag.RecClonedIdentity && n.Decision == "release"
}

// refutes returns the hop whose pass refutes an entry with this reason. It returns "" where a probe measures less than
// the agent: a probe reads the current files, the agent those that were there when it started.
func refutes(n *diag.RecordEntry, code diag.ReasonCode) diag.HopID {
	switch code {
	case diag.ReasonEdgeRateLimited:
		if n.About == "task" { // about a terminal's stream; the other loops have their own points in the checklist
			return diag.HopNodeTerminalReachability
		}
	case diag.ReasonDiskFull, diag.ReasonClockSkew:
		return diag.HopNodeReadiness
	case diag.ReasonTaskResultPostFailed:
		return diag.HopNodeTaskRoundtrip
	case diag.ReasonTerminalEndpointDrift:
		return diag.HopNodeTerminalReachability
	case diag.ReasonTerminalStartupFailed:
		return diag.HopTerminalStartup
	}
	return ""
}

// onlyHeartbeat reports whether an entry about a control plane that is unreachable, limits requests or denies the node
// concerns heartbeats alone: this walk's task wait, or the time of the agent's last contact, proves that others arrive.
// For a failed connection and a denial both must, since the walk may get through where the agent does not.
func (e *Evidence) onlyHeartbeat(n *diag.RecordEntry, code diag.ReasonCode) bool {
	denied := n.Status == 401 || n.Status == 403
	if n.About != "heartbeat" || code == diag.ReasonClonedIdentity ||
		(code != diag.ReasonControlPlaneUnreachable && code != diag.ReasonEdgeRateLimited && !denied) {
		return false
	}
	wait, measured := worst(e.Points, diag.PointWait)
	served := measured && wait.Status == diag.MarkPass
	return (served || !measured) && e.recentContact() && (served || (n.Status != 0 && !denied))
}

// RefusedHeartbeat returns the entry of the node's record that shows that the platform answers its heartbeats with an
// HTTP error while it accepts the agent's other requests, or nil.
func (e *Evidence) RefusedHeartbeat() *diag.RecordEntry { return viewOf(e).record.refused }

// accepted describes the evidence that the node's certificate is now accepted, or is "". The evidence is a task wait of
// this walk, or the platform's own state if no task wait was refused.
func (e *Evidence) accepted() string {
	wait, measured := worst(e.Points, diag.PointWait)
	switch {
	case measured && wait.Status == diag.MarkPass:
		return string(wait.ID) + " passes: " + wait.Text
	case !measured && e.recentContact():
		return "the platform hears the node"
	}
	return ""
}

// identityReason reports whether a reason is about the node's certificate. Such a reason cannot hold while the platform
// accepts the certificate.
func identityReason(code diag.ReasonCode) bool {
	return slices.Contains(
		[]diag.ReasonCode{diag.ReasonCertExpired, diag.ReasonIdentityRejectedRecoverable, diag.ReasonRecoveryTokenMissing,
			diag.ReasonIdentityRevokedOrFenced, diag.ReasonCertUntrustedByIngress},
		code,
	)
}

// contact reports whether the entry proves that the platform answered this node as its own.
func contact(n *diag.RecordEntry) bool {
	return n.Decision == DecisionContact || n.Decision == DecisionDelivered || n.Reason == diag.RecSelfUpdateCommitted
}

// exchange reports whether the entry is one attempt of a loop, of which only the newest counts. Entries about an
// identity add up: an expired certificate stays expired when the token is missing as well.
func exchange(n *diag.RecordEntry) bool {
	return slices.Contains([]string{"heartbeat", "task_wait", "task_result"}, n.About)
}

// denies has the checklist points that an entry contradicts, by what it is about.
var denies = map[string]diag.PointID{
	"heartbeat": diag.PointHeartbeat, "identity": diag.PointHeartbeat, "task_wait": diag.PointWait,
	"task_result": diag.PointTask,
}

// reasonOfEntry returns the operator reason of entry i, "" if it is not about a failure.
func reasonOfEntry(entries []*diag.RecordEntry, i int) diag.ReasonCode {
	n := entries[i]
	if Released(n) {
		return ""
	}
	switch n.Reason {
	case diag.RecIdentityRejected:
		switch {
		case diag.MissingFromEdge(n.Code) != "": // no certificate was judged
			return diag.ReasonControlPlaneUnreachable
		case enrolledBefore(entries, i):
			return diag.ReasonCertUntrustedByIngress
		}
	case diag.RecTaskPollFailed:
		if n.Status >= 500 || n.Failure == diag.HTTPTimeout {
			return diag.ReasonControlPlaneUnreachable
		}
	}
	return recordReasons[n.Reason]
}

// enrolledBefore reports whether the credential whose refusal entry i records was issued after the last good contact. A
// listener that refuses a fresh certificate trusts another CA.
func enrolledBefore(entries []*diag.RecordEntry, i int) bool {
	for k := i - 1; k >= 0; k-- {
		switch {
		case contact(entries[k]), entries[k].BootID != entries[i].BootID:
			return false
		case entries[k].Reason == diag.RecRecoveryEnrolled:
			return true
		}
	}
	return false
}

// recordReasons maps record reasons to operator reasons. A record reason that is not listed is not a failure.
var recordReasons = map[diag.RecordReason]diag.ReasonCode{
	diag.RecServerTLSUntrusted:        diag.ReasonServerTLSUntrusted,
	diag.RecEndpointProfileDrift:      diag.ReasonEndpointProfileDrift,
	diag.RecRecoveryEnrollmentBlocked: diag.ReasonRecoveryEnrollmentBlocked,
	diag.RecRecoverySuppressed:        diag.ReasonRecoveryEnrollmentBlocked,
	diag.RecIdentityRevoked:           diag.ReasonIdentityRevokedOrFenced,
	diag.RecIdentityRejected:          diag.ReasonIdentityRejectedRecoverable,
	diag.RecEdgeRateLimited:           diag.ReasonEdgeRateLimited,
	diag.RecTaskPollFailed:            diag.ReasonNodeAgentUnreachable,
	diag.RecAPIUnreachable:            diag.ReasonControlPlaneUnreachable,
	diag.RecDNSFailed:                 diag.ReasonControlPlaneUnreachable,
	diag.RecCertExpired:               diag.ReasonCertExpired,
	diag.RecCertNotYetValid:           diag.ReasonClockSkew,
	diag.RecCertKeyMismatch:           diag.ReasonIdentityRejectedRecoverable,
	diag.RecCertMissing:               diag.ReasonIdentityRejectedRecoverable,
	diag.RecRecoveryTokenMissing:      diag.ReasonRecoveryTokenMissing,
	diag.RecRecoveryTokenExpired:      diag.ReasonRecoveryTokenMissing,
	diag.RecTaskResultPostFailed:      diag.ReasonTaskResultPostFailed,
	diag.RecTaskClaimFailed:           diag.ReasonAgentVersionDrift,
	diag.RecTerminalStreamFailed:      diag.ReasonTerminalEndpointDrift,
	diag.RecTerminalPTYFailed:         diag.ReasonTerminalStartupFailed,
	diag.RecDiskFull:                  diag.ReasonDiskFull,
	diag.RecClockSkew:                 diag.ReasonClockSkew,
	diag.RecClonedIdentity:            diag.ReasonClonedIdentity,
	diag.RecSelfUpdateReverted:        diag.ReasonAgentVersionDrift,
	diag.RecShutdown:                  diag.ReasonAgentDown,
}

func entryLine(n *diag.RecordEntry) string {
	text := fmt.Sprintf("host record, as of %s: %s, %s", stamp(n.At), n.Reason, n.About)
	for _, s := range []string{string(n.Failure), n.Code, n.Decision} {
		if s != "" {
			text += ", " + s
		}
	}
	if n.Status != 0 {
		text += fmt.Sprintf(", HTTP %d", n.Status)
	}
	if n.Count > 1 {
		text += fmt.Sprintf(" (%d times)", n.Count)
	}
	return text
}

func stamp(t diag.Time) string { return t.UTC().Format(time.RFC3339) }

func appendStamp(to []byte, t diag.Time) []byte { return t.UTC().AppendFormat(to, time.RFC3339) }
