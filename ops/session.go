package ops

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
	"github.com/gpuaas/gpuaasctl/preflight/vantage"
	"github.com/gpuaas/gpuaasctl/preflight/walk"
)

// Target is what a session is about. Every field but Node may be empty.
type Target struct {
	Node        string
	Host        string // address of the node; "": the profile's
	Allocation  string
	Session     string // terminal session of a failing request
	Correlation string // correlation id of a failing request
	As          string // prefix of the ids of the session's own requests; "" is "diag"
}

// Session is one run about one node, with its own ids. It has no open connections: every method opens those that it
// needs. Its methods may be called concurrently.
type Session struct {
	RunID string
	Began time.Time

	site *Site
	of   Target
	env  hop.Env
}

// Node returns a new session about a node, and about an allocation on it if given.
func (s *Site) Node(id, allocation string) *Session {
	return s.About(Target{Node: id, Allocation: allocation})
}

// About is a new session.
func (s *Site) About(t Target) *Session {
	t.As = cmp.Or(t.As, "diag")
	n := &Session{RunID: walk.NewID("run"), Began: time.Now(), site: s, of: t}
	n.env = hop.Env{
		Profile: s.Profile, Subject: hop.NewSubject(s.Profile, t.Node, t.Host, t.Allocation, t.Session),
		CorrelationID: walk.NewID(t.As), Token: s.Secrets.Token, Cookie: s.Secrets.Cookie, NodeCA: s.Secrets.NodeCA,
		Hops: s.Hops, Scrub: func(text string) string { return scrub.Line(text, nil) },
	}
	n.env.Subject.CorrelationID = t.Correlation // the session's own requests have another id
	n.env.Known = n.env.Secrets()
	if s.Chosen != "" && s.Chosen != s.Profile.Name { // the profile would not be found by its name alone
		n.env.Subject.Expected["profile_file"] = s.Chosen
	}
	return n
}

// Renew returns a session about the same target, begun now and with new ids.
func (s *Session) Renew(as string) *Session {
	t := s.of
	t.As = as
	return s.site.About(t)
}

// Restart returns the same session, begun now, with the same ids.
func (s *Session) Restart() *Session {
	n := *s
	n.Began = time.Now()
	return &n
}

// Site returns the node's site.
func (s *Session) Site() *Site { return s.site }

// Subject returns what the session is about, for a report.
func (s *Session) Subject() diag.Subject {
	of := s.env.Subject
	of.Expected = maps.Clone(of.Expected)
	return of
}

// RequireHost refuses a session that must log in to its node but lacks an address or a way to log in.
func (s *Session) RequireHost() error {
	p := s.site.Profile
	if s.env.Subject.NodeHost != "" {
		return asInput(vantage.CheckFiles(p.SSH))
	}
	return &NoHostError{Node: s.of.Node, Profile: s.site.Chosen, Others: p.OtherNodes(s.of.Node)}
}

// readModelFact is the id of a walk's request for the node.
const readModelFact = string(diag.HopNodeHeartbeat) + "/read_model"

// knownNode returns an error if neither the platform knows the node nor the profile has a host for it.
func (s *Session) knownNode(f *diag.Fact) error {
	if f.HTTP == nil || f.HTTP.Status != http.StatusNotFound || f.Failure != diag.HTTPStatus ||
		s.env.Subject.NodeHost != "" {
		return nil
	}
	p := s.site.Profile
	return &UnknownNodeError{Node: s.of.Node, Platform: p.APIBase, Others: p.OtherNodes(s.of.Node)}
}

// KnownNode returns an UnknownNodeError if the facts of a walk show that the platform does not know the node.
func (s *Session) KnownNode(facts []diag.Fact) error {
	for i := range facts {
		if facts[i].ID == readModelFact {
			if err := s.knownNode(&facts[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Command returns a command about this node, to paste: the words before NODE, then flags.
func (s *Session) Command(words ...string) string {
	argv := []string{"gpuaasctl"}
	n := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") })
	if n < 0 {
		n = len(words)
	}
	argv = append(append(argv, words[:n]...), s.of.Node)
	if s.site.Chosen != "" {
		argv = append(argv, "--profile", s.site.Chosen)
	}
	if s.of.Host != "" {
		argv = append(argv, "--node-host", s.of.Host)
	}
	return diag.Command(append(argv, words[n:]...)...)
}
