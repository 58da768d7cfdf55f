package diag

import (
	"fmt"
	"slices"
	"time"
)

// recorded is what a diagnostic record says of the present, and what it said once.
type recorded struct {
	now  map[ReasonCode][]string // lines of evidence
	then map[ReasonCode]string   // why older lines do not count
	gone bool                    // the node wrote that it has no current recovery token
	// blocked are lines that say that enrollment itself fails; fresh says that a newly issued certificate was refused.
	blocked []string
	fresh   bool
	refused *RecordEntry // a heartbeat that the platform answered with a status, while it hears the agent's other requests
	speaks  bool         // some entry has a reason that is known here
}

// readRecord reads what the node wrote down. An entry is history when the node had good contact later in the same
// record, when a later entry of the same loop says otherwise, when it is of an earlier boot, or when the point of the
// checklist that it denies is known to pass. Only a cloned identity is not forgotten by a reboot or a contact, since
// both machines have them: it ends with a new identity, or when the node wrote that the platform had taken it back.
func readRecord(e *Evidence, points [len(Points)]CheckPoint) recorded {
	r := recorded{now: map[ReasonCode][]string{}, then: map[ReasonCode]string{}}
	entries := e.Record.InTime()
	if len(entries) == 0 {
		return r
	}
	boot := entries[len(entries)-1].BootID
	if e.BootID != "" {
		boot = e.BootID
	}
	r.speaks = slices.ContainsFunc(entries, func(n RecordEntry) bool { return slices.Contains(RecordReasons[:], n.Reason) })
	last := len(entries) - 1
	newest := map[string]bool{} // of one reason and loop only the newest entry speaks
	for i := last; i >= 0; i-- {
		n := &entries[i]
		code := reasonOfEntry(entries, i)
		if code == "" || newest[string(code)+" "+n.About] || n.Reason == RecShutdown && i != last { // it came back
			continue
		}
		newest[string(code)+" "+n.About] = true
		why := outdated(entries, i, boot, points, e.accepted())
		if hop := refutes(n, code); why == "" && hop != "" && passes(e.Probes, hop) {
			why = fmt.Sprintf("superseded: the node wrote it at %s, and %s passes", stamp(n.At), hop)
		}
		if why == "" {
			why = asOf(e, entries, i, code)
		}
		if why != "" {
			if r.then[code] == "" {
				r.then[code] = why
			}
			continue
		}
		if e.onlyHeartbeat(n, code) {
			code = ReasonNodeAgentUnreachable
			if n.Status != 0 && r.refused == nil {
				r.refused = n
			}
		}
		r.now[code] = append(r.now[code], entryLine(n))
		r.gone = r.gone || n.Reason == RecRecoveryTokenMissing || n.Reason == RecRecoveryTokenExpired
		if code == ReasonRecoveryEnrollmentBlocked || code == ReasonServerTLSUntrusted && n.About == "identity" && n.Decision == "retry" {
			r.blocked = append(r.blocked, entryLine(n)) // nobody asks for an identity but to enroll
		}
		r.fresh = r.fresh || code == ReasonCertUntrustedByIngress
	}
	for code := range r.now {
		delete(r.then, code)
	}
	return r
}

// outdated says why entry i does not speak of the present, "" when it does. accepted says
// how the node's certificate was seen to be accepted just now, "" where it was not.
func outdated(entries []RecordEntry, i int, boot string, points [len(Points)]CheckPoint, accepted string) string {
	n := &entries[i]
	if n.Reason == RecClonedIdentity {
		for k := i + 1; k < len(entries); k++ {
			switch later := &entries[k]; {
			case later.Reason == RecRecoveryEnrolled:
				return fmt.Sprintf("superseded: the node wrote it at %s, and got a new identity at %s", stamp(n.At), stamp(later.At))
			case released(later):
				return fmt.Sprintf("superseded: the node wrote it at %s, and was accepted again at %s", stamp(n.At), stamp(later.At))
			}
		}
		return ""
	}
	if n.BootID != boot {
		return fmt.Sprintf("superseded: the node wrote it at %s, in an earlier boot", stamp(n.At))
	}
	for k := len(entries) - 1; k > i; k-- {
		later := &entries[k]
		switch {
		case contact(later) && (n.About != "task_result" || later.About == "task_result"):
			return fmt.Sprintf("superseded: the node wrote it at %s, and had good contact at %s", stamp(n.At), stamp(later.At))
		case later.About == n.About && exchange(n) && later.Reason != n.Reason:
			return fmt.Sprintf("superseded: the node wrote %s at %s", later.Reason, stamp(later.At))
		}
	}
	if begun := beganAnew(entries, i); begun != nil {
		return fmt.Sprintf("superseded: the node wrote it at %s, and has not again since its agent began anew at %s", stamp(n.At), stamp(begun.At))
	}
	if accepted != "" && (n.About == "identity" || identityReason(reasonOfEntry(entries, i))) {
		return fmt.Sprintf("superseded: the node wrote it at %s, and %s", stamp(n.At), accepted)
	}
	if p := denies(n); p != "" {
		for _, c := range points {
			if c.ID == p && c.Status == MarkPass {
				return fmt.Sprintf("superseded: the node wrote it at %s, and %s passes: %s", stamp(n.At), c.ID, c.Text)
			}
		}
	}
	return ""
}

// asOf says why an entry that nothing outdates is of its time all the same, "" where it is not: of a walk that passes,
// and of a result that the node could not post before it had good contact again, where a walk looked and found nothing
// of it. Only a cloned identity is never of its time.
func asOf(e *Evidence, entries []RecordEntry, i int, code ReasonCode) string {
	n := &entries[i]
	switch {
	case code == ReasonClonedIdentity:
	case e.Passed:
		return fmt.Sprintf("as of %s: this walk passes, and did not look at it again", stamp(n.At))
	case n.About == "task_result" && len(e.Probes) > 0 && slices.ContainsFunc(entries[i+1:], func(l RecordEntry) bool { return contact(&l) }):
		return fmt.Sprintf("as of %s: the node had good contact since, and this walk saw no result that was not taken", stamp(n.At))
	}
	return ""
}

// DecisionContact marks the entry that tells of a good contact: the platform answered this node as its own.
const DecisionContact = "contact"

// DecisionDelivered marks the entry that tells that the platform took a task's result. Agents write it since results
// have a good contact of their own: the one above is a heartbeat's.
const DecisionDelivered = "delivered"

// released reports whether the entry tells that the platform took a quarantined node back, which is an operator's decision.
func released(n *RecordEntry) bool { return n.Reason == RecClonedIdentity && n.Decision == "release" }

// refutes is the hop that measures the very thing that an entry of this reason tells of, "" where a probe sees less than
// the agent: what a probe reaches with the files of today, an agent may fail at with those of its start.
func refutes(n *RecordEntry, code ReasonCode) HopID {
	switch code {
	case ReasonEdgeRateLimited:
		if n.About == "task" { // of a terminal's stream: the other loops have points of the checklist
			return HopNodeTerminalReachability
		}
	case ReasonDiskFull, ReasonClockSkew:
		return HopNodeReadiness
	case ReasonTaskResultPostFailed:
		return HopNodeTaskRoundtrip
	case ReasonTerminalEndpointDrift:
		return HopNodeTerminalReachability
	case ReasonTerminalStartupFailed:
		return HopTerminalStartup
	}
	return ""
}

// onlyHeartbeat reports whether an entry that speaks of an unreachable control plane is of heartbeats alone: a task wait of
// this walk, or the agent's contact as the platform has it, says that other requests arrive. So the plane as a whole is
// reachable. What a connection failed at needs both: the walk may get through where the agent does not.
func (e *Evidence) onlyHeartbeat(n *RecordEntry, code ReasonCode) bool {
	if code != ReasonControlPlaneUnreachable || n.About != "heartbeat" {
		return false
	}
	wait, measured := worst(e.Points, PointWait)
	served := measured && wait.Status == MarkPass
	if measured && !served {
		return false
	}
	return e.heardLately() && (served || n.Status != 0)
}

// RefusedHeartbeat is the entry of the node's record by which the platform answers its heartbeats with an HTTP error,
// while it hears the agent's other requests. Nil where nothing says so of the present.
func (e *Evidence) RefusedHeartbeat() *RecordEntry { return look(e).record.refused }

// accepted says how the node's certificate was seen to be accepted just now: by a task wait of this walk, or by the
// platform, unless a task wait was refused. "" where it was not.
func (e *Evidence) accepted() string {
	wait, measured := worst(e.Points, PointWait)
	switch {
	case measured && wait.Status == MarkPass:
		return string(wait.ID) + " passes: " + wait.Text
	case !measured && e.heardLately():
		return "the platform hears the node"
	}
	return ""
}

// identityReason reports whether a reason is about the node's certificate: none of these holds while the platform
// accepts it.
func identityReason(code ReasonCode) bool {
	switch code {
	case ReasonCertExpired, ReasonIdentityRejectedRecoverable, ReasonRecoveryTokenMissing, ReasonIdentityRevokedOrFenced, ReasonCertUntrustedByIngress:
		return true
	}
	return false
}

// beganAnew is the agent's start after entry i, in a record that knows of no contact at all: one ring alone does not have
// them. What still holds is written again soon after a start.
func beganAnew(entries []RecordEntry, i int) *RecordEntry {
	if slices.ContainsFunc(entries, func(e RecordEntry) bool { return contact(&e) && e.Decision != DecisionDelivered }) {
		return nil
	}
	for k := len(entries) - 1; k > i; k-- {
		if e := &entries[k]; e.Reason == RecProcessAlive && e.Decision == "start" {
			return e
		}
	}
	return nil
}

// contact reports whether the entry proves that the platform answered this node as its own.
func contact(n *RecordEntry) bool {
	return n.Decision == DecisionContact || n.Decision == DecisionDelivered || n.Reason == RecSelfUpdateCommitted
}

// exchange reports whether the entry tells of one try of a loop, of which only the newest counts. What is written about
// an identity adds up: an expired certificate is still expired when a token is missing, too.
func exchange(n *RecordEntry) bool {
	switch n.About {
	case "heartbeat", "task_wait", "task_result":
		return true
	}
	return false
}

// denies is the point of the checklist that the entry speaks against, "" for one that no point answers.
func denies(n *RecordEntry) PointID {
	switch n.About {
	case "heartbeat", "identity":
		return PointHeartbeat
	case "task_wait":
		return PointWait
	case "task_result":
		return PointTask
	}
	return ""
}

// reasonOfEntry is the operator reason of entry i, "" for one that tells of no trouble.
func reasonOfEntry(entries []RecordEntry, i int) ReasonCode {
	n := &entries[i]
	if released(n) {
		return ""
	}
	switch n.Reason {
	case RecIdentityRejected:
		if enrolledBefore(entries, i) {
			return ReasonCertUntrustedByIngress
		}
	case RecTaskPollFailed:
		if n.Status >= 500 || n.Failure == HTTPTimeout {
			return ReasonControlPlaneUnreachable
		}
	}
	return reasonOfRecord(n.Reason)
}

// enrolledBefore reports whether the credential that entry i saw refused was issued since the last good contact: what
// refuses a fresh certificate trusts another CA.
func enrolledBefore(entries []RecordEntry, i int) bool {
	for k := i - 1; k >= 0; k-- {
		switch {
		case contact(&entries[k]), entries[k].BootID != entries[i].BootID:
			return false
		case entries[k].Reason == RecRecoveryEnrolled:
			return true
		}
	}
	return false
}

// recordReasons translates what a node writes. What is not here tells of no trouble.
var recordReasons = [...]struct {
	wrote RecordReason
	means ReasonCode
}{
	{RecServerTLSUntrusted, ReasonServerTLSUntrusted},
	{RecEndpointProfileDrift, ReasonEndpointProfileDrift},
	{RecRecoveryEnrollmentBlocked, ReasonRecoveryEnrollmentBlocked},
	{RecRecoverySuppressed, ReasonRecoveryEnrollmentBlocked},
	{RecIdentityRevoked, ReasonIdentityRevokedOrFenced},
	{RecIdentityRejected, ReasonIdentityRejectedRecoverable},
	{RecEdgeRateLimited, ReasonEdgeRateLimited},
	{RecTaskPollFailed, ReasonNodeAgentUnreachable},
	{RecAPIUnreachable, ReasonControlPlaneUnreachable},
	{RecDNSFailed, ReasonControlPlaneUnreachable},
	{RecCertExpired, ReasonCertExpired},
	{RecCertNotYetValid, ReasonClockSkew},
	{RecCertKeyMismatch, ReasonIdentityRejectedRecoverable},
	{RecCertMissing, ReasonIdentityRejectedRecoverable},
	{RecRecoveryTokenMissing, ReasonRecoveryTokenMissing},
	{RecRecoveryTokenExpired, ReasonRecoveryTokenMissing},
	{RecTaskResultPostFailed, ReasonTaskResultPostFailed},
	{RecTaskClaimFailed, ReasonAgentVersionDrift},
	{RecTerminalStreamFailed, ReasonTerminalEndpointDrift},
	{RecTerminalPTYFailed, ReasonTerminalStartupFailed},
	{RecDiskFull, ReasonDiskFull},
	{RecClockSkew, ReasonClockSkew},
	{RecClonedIdentity, ReasonClonedIdentity},
	{RecSelfUpdateReverted, ReasonAgentVersionDrift},
	{RecShutdown, ReasonAgentDown},
}

func reasonOfRecord(wrote RecordReason) ReasonCode {
	for _, r := range recordReasons {
		if r.wrote == wrote {
			return r.means
		}
	}
	return ""
}

func entryLine(n *RecordEntry) string {
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

func stamp(t Time) string { return t.UTC().Format(time.RFC3339) }
