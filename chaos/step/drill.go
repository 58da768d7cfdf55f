// Package step defines what is sent to a machine in a drill, and what is returned: the drill with all of its
// changes, the entries of the journal, and the state. It is data and pure functions on data, and imports only the
// standard library: package chaos and its fault kinds produce it, package chaos/node executes it.
//
// No undo is written by hand. A Change declares the state of a place during the drill; the machine records the
// state before, and restores that state, but only if the place is still in the changed state. If it is in any
// third state, another process has changed it: it is left alone, and reported as a conflict.
package step

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"sync"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Schema is the version of the format; other versions are rejected.
const Schema = "gpuaas.drill/v1"

// Limits of a drill.
const (
	MinTTL       = 10 * time.Second // chaos.min_ttl_seconds: a shorter drill would not show an effect
	MaxTTL       = time.Hour        // a longer drill would be an outage
	RenewEvery   = 5 * time.Second  // how often the run renews the lease
	DefaultLease = 4 * RenewEvery   // after this many missed renewals, the drill is reverted
	Grace        = 15 * time.Second // how long an undo may take, including the stop and start of a unit
	MaxSize      = 256 << 10        // bytes of a drill in JSON
)

// Tiers name what removes a fault if the run does not, the strongest first.
const (
	TierKernel     = "T0" // the kernel, by a timeout
	TierWatchdog   = "T1" // the watchdog, or its restart
	TierBoot       = "T2" // a reboot
	TierPersistent = "T3" // only an undo: for disposable machines only
)

// Drill is everything that a machine needs to inject faults and to revert them without help.
type Drill struct {
	Schema string `json:"schema"`
	// names this run in every place that it touches: [a-z0-9-], at most 24
	Run      string `json:"run"`
	Scenario string `json:"scenario"` // id of the scenario file
	Node     string `json:"node"`     // must be the node of the machine's consent file
	// the operator: "ann@laptop"; shown to another operator who finds the machine locked
	By  string    `json:"by"`
	At  time.Time `json:"at"`     // the runner's time when the drill was sent
	TTL Millis    `json:"ttl_ms"` // since arming; then everything is reverted
	// without a renewal for this long, everything is reverted; 0 = DefaultLease
	Lease Millis `json:"lease_ms,omitempty"`
	// "addr:port" of connections that no change may cut, in addition to the SSH connection
	Peers []string `json:"peers,omitempty"`
	// only for machines that may be lost, says the scenario; the owner must allow it as well
	Disposable bool    `json:"disposable,omitempty"`
	Steps      []Step  `json:"steps"`
	Scope      Scope   `json:"scope"`
	Allowed    []Allow `json:"allowed,omitempty"` // differences that the drill may leave
}

// Step is one fault on this machine.
type Step struct {
	ID      string   `json:"id"`    // [a-z0-9-], at most 24, unique in the drill
	Fault   string   `json:"fault"` // kind of the fault in the scenario: "net-block"
	Tier    string   `json:"tier"`
	Title   string   `json:"title,omitempty"` // what it does, in words
	Changes []Change `json:"changes"`         // made in this order, reverted in reverse
	Verify  []Check  `json:"verify,omitempty"`
}

// Millis is a duration in whole milliseconds.
type Millis int64

// Duration converts m to a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// MillisOf converts d, rounded down.
func MillisOf(d time.Duration) Millis { return Millis(d / time.Millisecond) }

// LeaseFor returns how long the drill lives without a renewal.
func (d Drill) LeaseFor() time.Duration {
	if d.Lease == 0 {
		return DefaultLease
	}
	return d.Lease.Duration()
}

// Step returns a step by its id.
func (d Drill) Step(id string) (Step, bool) {
	for _, s := range d.Steps {
		if s.ID == id {
			return s, true
		}
	}
	return Step{}, false
}

// Risk returns why the step is only for machines that may be lost; "" if it is for any machine.
func (s Step) Risk() string {
	if s.Tier == TierPersistent {
		return "it outlives a reboot (" + TierPersistent + ")"
	}
	for _, c := range s.Changes {
		if unit := c.wayIn(); unit != "" {
			return "it takes the operator's own way in (" + unit + ")"
		}
	}
	return ""
}

// Encode returns the canonical text of d: fields in the order of the types, no white space, a newline at the end.
func (d Drill) Encode() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic("a drill is plain data: " + err.Error())
	}
	return append(b, '\n')
}

// Decode parses a drill strictly (an unknown field is an error) and validates it.
func Decode(r io.Reader) (Drill, error) {
	b, err := bounded.Read(r, MaxSize)
	if errors.Is(err, bounded.ErrLimit) {
		return Drill{}, fmt.Errorf("drill is larger than %d bytes", MaxSize)
	}
	if err != nil {
		return Drill{}, fmt.Errorf("read drill: %w", err)
	}
	var d Drill
	switch err := bounded.Strict(b, &d, bounded.Line()); {
	case errors.Is(err, bounded.ErrMore):
		return Drill{}, errors.New("drill: something follows it")
	case err != nil:
		return Drill{}, fmt.Errorf("drill: %w", err)
	}
	return d, d.Validate()
}

const maxName = 24

// name has the bound in its count: the first character, up to 22, and the last.
var name = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?$`) })

// ValidName reports whether s may name a run or a step: it becomes part of file, unit and table names.
func ValidName(s string) bool { return name().MatchString(s) }

// Validate reports everything that is wrong with d by itself, independent of a machine.
func (d Drill) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d.Schema != Schema {
		bad("schema is %q, want %q", d.Schema, Schema)
	}
	if !ValidName(d.Run) {
		bad("run %q: want [a-z0-9-], at most %d", d.Run, maxName)
	}
	if d.Node == "" {
		bad("node is missing")
	}
	if d.By == "" {
		bad("by is missing: a locked machine must be able to say by whom")
	}
	if d.At.IsZero() {
		bad("at is missing: the machine's clock cannot be compared")
	}
	if ttl := d.TTL.Duration(); ttl < MinTTL || ttl > MaxTTL {
		bad("ttl_ms: %v is not between %v and %v", ttl, MinTTL, MaxTTL)
	}
	if d.Lease < 0 || d.LeaseFor() < 2*time.Second {
		bad("lease_ms: %v is too short to be renewed over a network", d.Lease.Duration())
	}
	for _, p := range d.Peers {
		if _, err := netip.ParseAddrPort(p); err != nil {
			bad("peers: %q is not addr:port", p)
		}
	}
	if len(d.Steps) == 0 {
		bad("no steps")
	}
	for _, s := range d.Steps {
		if why := s.Risk(); why != "" && !d.Disposable {
			bad("step %s needs disposable: true, for %s", s.ID, why)
		}
	}
	errs = append(errs, d.Scope.validate(), d.validateSteps())
	for i, a := range d.Allowed {
		if err := a.validate(); err != nil {
			bad("allowed[%d]: %w", i, err)
		}
	}
	return errors.Join(errs...)
}

func (d Drill) validateSteps() error {
	var errs []error
	ids, claims := map[string]bool{}, map[string]string{}
	for _, s := range d.Steps {
		if ids[s.ID] {
			errs = append(errs, fmt.Errorf("step %s: the id is taken", s.ID))
		}
		ids[s.ID] = true
		if err := s.validate(); err != nil {
			errs = append(errs, fmt.Errorf("step %s: %w", s.ID, err))
			continue
		}
		for _, c := range s.Claims() {
			if other, taken := claims[c]; taken {
				errs = append(errs, fmt.Errorf("step %s: %s is changed by step %s as well, so neither could be undone by itself",
					s.ID, c, other))
			}
			claims[c] = s.ID
		}
	}
	return errors.Join(errs...)
}

func (s Step) validate() error {
	var errs []error
	if !ValidName(s.ID) {
		errs = append(errs, fmt.Errorf("id %q: want [a-z0-9-], at most %d", s.ID, maxName))
	}
	if s.Fault == "" {
		errs = append(errs, errors.New("fault is missing"))
	}
	switch s.Tier {
	case TierKernel, TierWatchdog, TierBoot, TierPersistent:
	default:
		errs = append(errs, fmt.Errorf("tier %q: want T0, T1, T2 or T3", s.Tier))
	}
	if len(s.Changes) == 0 {
		errs = append(errs, errors.New("no changes"))
	}
	weakest := ""
	for i, c := range s.Changes {
		if err := c.validate(); err != nil {
			errs = append(errs, fmt.Errorf("changes[%d]: %w", i, err))
			continue
		}
		weakest = max(weakest, c.Tier())
	}
	if len(errs) == 0 && s.Tier < weakest {
		errs = append(errs, fmt.Errorf("tier %s promises more than its changes keep, which are %s", s.Tier, weakest))
	}
	for i, c := range s.Verify {
		if err := c.validate(); err != nil {
			errs = append(errs, fmt.Errorf("verify[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Claims returns the places that the step changes, each once: no other step of the drill may change them.
func (s Step) Claims() []string {
	var all []string
	seen := map[string]bool{}
	for _, c := range s.Changes {
		if p := c.Place(); !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}
