package diag

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Fact is the measurement of one probe: immutable, self-contained, without a verdict. A section is present if its phase
// was begun. An attribute that was not measured is absent, never zero.
type Fact struct {
	ID         string  `json:"id"` // the request's id
	Vantage    string  `json:"vantage"`
	Request    Request `json:"request"`
	Target     string  `json:"target,omitempty"`           // Request.Target with ${NAME} expanded, where that differs
	At         Time    `json:"at,omitzero"`                // the probing host's wall clock when the probe began
	OffsetMS   int64   `json:"offset_ms" bounded:"signed"` // since the start of the walk
	DurationMS Millis  `json:"duration_ms"`

	// Refused is how often the server refused the request before this answer, beside other requests of the walk.
	Refused int `json:"refused,omitempty"`

	Failure Failure `json:"failure,omitempty"`
	Phase   string  `json:"phase,omitempty"`  // the phase in which it failed: dns, tcp, tls, http, ws, pty, ...
	Errno   string  `json:"errno,omitempty"`  // symbolic, e.g. ECONNREFUSED
	Detail  string  `json:"detail,omitempty"` // the error's original text, with secrets and URL queries removed

	// AgentView reports whether the probe ran with the agent's view: "" if not requested or the host has no separate
	// view, "namespace" if the probe entered the agent's namespaces, else why not ("no process", "not permitted", or
	// "login's network": the login has its own network namespace and may not leave it).
	AgentView string `json:"agent_view,omitempty"`

	// Proxy is the variable of the measuring program's environment that names a proxy for this target, and the proxy's
	// host and port. The request did not use it.
	Proxy string `json:"proxy,omitempty"`
	// OwnNetwork: measured in a network namespace that the agent has and the machine does not share.
	OwnNetwork bool `json:"own_network,omitempty"`
	// Shortage is the resource that the measuring machine ran out of, with host_exhausted. Denial lists its packet
	// filters and policies, with tcp_denied.
	Shortage *ShortageFacts `json:"shortage,omitempty"`
	Denial   *DenialFacts   `json:"denial,omitempty"`

	DNS    *DNSFacts    `json:"dns,omitempty"`
	TCP    *TCPFacts    `json:"tcp,omitempty"`
	TLS    *TLSFacts    `json:"tls,omitempty"`
	HTTP   *HTTPFacts   `json:"http,omitempty"`
	WS     *WSFacts     `json:"ws,omitempty"`
	PTY    *PTYFacts    `json:"pty,omitempty"`
	SSH    *SSHFacts    `json:"ssh,omitempty"`
	Disk   *DiskFacts   `json:"disk,omitempty"`
	File   *FileFacts   `json:"file,omitempty"`
	Cert   *CertFacts   `json:"cert,omitempty"`
	Unit   *UnitFacts   `json:"unit,omitempty"`
	Binary *BinaryFacts `json:"binary,omitempty"`
	User   *UserFacts   `json:"user,omitempty"`
	Clock  *ClockFacts  `json:"clock,omitempty"`
	Env    *EnvFacts    `json:"env,omitempty"`
	GPU    *GPUFacts    `json:"gpu,omitempty"`

	Machine *MachineFacts `json:"machine,omitempty"`
	Mounts  *MountsFacts  `json:"mounts,omitempty"`
	Kernel  *KernelFacts  `json:"kernel,omitempty"`
	Path    *PathFacts    `json:"path,omitempty"`

	GPUJudged *GPUJudged `json:"gpu_judged,omitempty"`

	Record  *RecordFacts  `json:"record,omitempty"`
	Journal *JournalFacts `json:"journal,omitempty"`

	Command   *CommandFacts   `json:"command,omitempty"`
	Process   *ProcessFacts   `json:"process,omitempty"`
	Container *ContainerFacts `json:"container,omitempty"`
}

// FactsByID returns the facts by their ids.
func FactsByID(facts []Fact) map[string]*Fact {
	m := make(map[string]*Fact, len(facts))
	for i := range facts {
		m[facts[i].ID] = &facts[i]
	}
	return m
}

// Passed reports whether the probe finished and nothing failed.
func (f *Fact) Passed() bool { return f != nil && f.Failure == OK }

// Empty reports whether the probe finished but measured nothing. Such a fact is evidence of nothing, in particular not
// of a pass.
func (f *Fact) Empty() bool {
	return f.Failure == OK &&
		f.DNS == nil && f.TCP == nil && f.TLS == nil && f.HTTP == nil && f.WS == nil && f.PTY == nil && f.SSH == nil &&
		f.Disk == nil && f.File == nil && f.Cert == nil && f.Unit == nil && f.Binary == nil && f.User == nil &&
		f.Clock == nil && f.Env == nil && f.GPU == nil && f.GPUJudged == nil && f.Record == nil && f.Journal == nil &&
		f.Command == nil && f.Process == nil && f.Container == nil && f.Machine == nil && f.Mounts == nil &&
		f.Kernel == nil && f.Path == nil
}

// Sections returns the sections that were measured, in the order of the phases.
func (f *Fact) Sections() []Section {
	var all []Section
	v := reflect.ValueOf(f).Elem()
	for _, i := range sectionFields() {
		if s, ok := v.Field(i).Interface().(Section); ok && !v.Field(i).IsNil() {
			all = append(all, s)
		}
	}
	return all
}

// sectionFields are the indices of the sections among a fact's fields.
var sectionFields = sync.OnceValue(func() []int {
	var places []int
	t := reflect.TypeFor[Fact]()
	for i := range t.NumField() {
		if t.Field(i).Type.Implements(reflect.TypeFor[Section]()) {
			places = append(places, i)
		}
	}
	return places
})

// Section is a part of a fact: the measurements of one phase of an operation. Code that iterates over facts (the wide
// page, the diff) handles every section through this interface and names none.
type Section interface {
	Words() []Line                 // lines for people
	Properties(f *Fact) []Property // values that can be compared between walks; f is the complete fact
}

// Line is one line about a section: a label and text. Empty words are omitted, and so is a line without words.
type Line struct {
	About string
	Words []string
}

func line(about string, words ...string) Line { return Line{about, words} }

// Property is one value of a fact that is equal in every walk until something changes: no time, no process id, no id of
// a single run. A property without a value is ignored.
type Property struct {
	Kind  ChangeKind
	Field string // wire path in the fact; its first element is the section
	Value string
}

// Section returns the wire name of the property's section.
func (t Property) Section() string {
	s, _, _ := strings.Cut(t.Field, ".")
	return s
}

// Properties returns the values of the fact that can be compared between walks.
func (f *Fact) Properties() []Property {
	var all []Property
	for _, s := range f.Sections() {
		for _, t := range s.Properties(f) {
			if t.Value != "" {
				all = append(all, t)
			}
		}
	}
	return all
}

// named returns a line for each name, sorted.
func named(values map[string]string) []Line {
	var lines []Line
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, line("  "+name, values[name]))
	}
	return lines
}

// pair returns label and v joined, "" for an empty v.
func pair(label, v string) string {
	if v == "" {
		return ""
	}
	return label + v
}

func took(d Millis) string {
	if d == 0 {
		return ""
	}
	return d.Words()
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func seconds(label string, s *int64) string {
	if s == nil {
		return ""
	}
	return label + Millis(*s*1000).Words()
}

func yes(b *bool, yes, no string) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return yes
	}
	return no
}

// Digits returns the part of a digest that people compare; JSON has all of it.
func Digits(digest string) string { return digest[:min(len(digest), 12)] }

// punctuation is what may separate the digits of a fingerprint.
var punctuation = strings.NewReplacer(":", "", " ", "", "-", "")

// Fingerprint normalizes a fingerprint: platforms write the same digest with colons, in capitals, or prefixed with the
// name of the hash.
func Fingerprint(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, hash := range [...]string{"sha256", "sha-256", "sha1", "sha-1"} {
		if rest, found := strings.CutPrefix(text, hash); found && strings.TrimLeft(rest, ":= /") != rest {
			text = strings.TrimLeft(rest, ":= /")
			break
		}
	}
	return punctuation.Replace(text)
}
