package render

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/diag"
)

// steps writes every step of a hop, and what its fact holds.
func (p *page) steps(h *diag.HopResult, facts map[string]*diag.Fact) {
	for i := range h.Steps {
		s := &h.Steps[i]
		head := fmt.Sprintf("%s %-18s %-8s", s.Status.Symbol(), Clean(s.Name), Clean(s.Vantage))
		if s.DurationMS > 0 {
			head += fmt.Sprintf(" %7s", s.DurationMS.Words())
		}
		if s.Failure != diag.OK {
			head += "  " + Clean(string(s.Failure))
		}
		if s.Because != "" {
			head += "  " + Clean(s.Because)
		}
		p.line(underIndent+2, head, StatusStyle(s.Status))
		if f := facts[s.Fact]; f != nil {
			p.fact(f)
			p.counters(f, facts)
		}
	}
}

// counters writes the probes that differ in one input from a failing fact.
func (p *page) counters(f *diag.Fact, facts map[string]*diag.Fact) {
	for _, k := range counterIDs(f.ID, facts) {
		c := facts[k]
		head := fmt.Sprintf("↳ %s %s %s", counterName(f.ID, k), Clean(c.Vantage), c.DurationMS.Words())
		if c.Failure != diag.OK {
			head += "  " + Clean(string(c.Failure))
		} else {
			head += "  passes"
		}
		p.line(underIndent+6, head, Plain)
	}
}

func counterName(id, counter string) string { return Clean(strings.TrimPrefix(counter, id+"~")) }

// fact writes one fact's measurements in the order of the ladder.
func (p *page) fact(f *diag.Fact) {
	for _, l := range Detail(f) {
		lead, rest := labelOf(l)
		p.wrapped(underIndent+6, lead, rest, Faint)
	}
}

// labelOf splits a detail at its label, under whose end later lines then begin; a long label is no such column.
func labelOf(l string) (lead, rest string) {
	const longest = 8
	inner := strings.TrimLeft(l, " ")
	word, rest, ok := strings.Cut(inner, " ")
	lead = spaces(len(l)-len(inner)) + word + " "
	if !ok || width(lead) > longest {
		return spaces(len(l) - len(inner)), inner
	}
	return lead, rest
}

// Detail is what a fact measured, one line per phase, clean.
func Detail(f *diag.Fact) []string {
	var lines []string
	add := func(what string, parts ...string) {
		kept := parts[:0]
		for _, s := range parts {
			if s != "" {
				kept = append(kept, Clean(s))
			}
		}
		if len(kept) > 0 {
			lines = append(lines, what+" "+strings.Join(kept, ", "))
		}
	}
	target := f.Target
	if target == "" {
		target = f.Request.Target
	}
	add(Clean(string(f.Request.Op)), target)
	network(f, add)
	application(f, add)
	host(f, add)
	if f.AgentView != "" {
		add("seen as the agent:", f.AgentView)
	}
	if f.Errno != "" || f.Detail != "" {
		add("said", f.Errno, f.Detail)
	}
	return lines
}

type adder func(what string, parts ...string)

func ms(d diag.Millis) string {
	if d == 0 {
		return ""
	}
	return d.Words()
}

func network(f *diag.Fact, add adder) {
	if d := f.DNS; d != nil {
		add("dns", d.Name, strings.Join(d.Addresses, " "), pair("from ", d.Source), pair("server ", d.Server), d.SourceLine, d.RCode, ms(d.DurationMS))
	}
	if t := f.TCP; t != nil {
		add("tcp", t.Remote, pair("from ", t.Local), ms(t.DurationMS))
		for _, a := range t.Attempts {
			outcome := string(a.Failure)
			switch {
			case a.Connected:
				outcome = "connected"
			case outcome == "":
				outcome = "no answer by then"
			}
			add("  tried", a.Remote, pair("after ", ms(a.AfterMS)), outcome, ms(a.DurationMS))
		}
	}
	if t := f.TLS; t != nil {
		verified := "not verified"
		if t.Verified {
			verified = "verified"
		}
		add("tls", t.Version, verified, pair("for ", t.ServerName), pair("against ", t.TrustSource), ms(t.DurationMS))
		for _, c := range t.Chain {
			add("  cert", c.Subject, pair("issued by ", c.Issuer), pair("serial ", c.Serial), "until "+c.NotAfter.UTC().Format(diag.TimeLayout))
		}
		if t.CertRequested != nil {
			asked := "client certificate not asked for"
			if *t.CertRequested {
				asked = "client certificate asked for"
			}
			add("  mtls", asked, pair("sent ", t.CertSent), pair("takes ", strings.Join(t.AcceptableCAs, "; ")))
		}
	}
}

func application(f *diag.Fact, add adder) {
	if h := f.HTTP; h != nil {
		retry := ""
		if h.RetryAfterS != nil {
			retry = fmt.Sprintf("retry after %d s", *h.RetryAfterS)
		}
		add("http", number64(int64(h.Status)), h.ContentType, pair("server ", h.Server), pair("to ", h.Location), pair("page ", h.Page), h.ErrorCode, h.ErrorMessage, retry, ms(h.DurationMS))
		for _, k := range sortedKeys(h.Fields) {
			add("  "+Clean(k), h.Fields[k])
		}
	}
	if w := f.WS; w != nil {
		up := "not upgraded"
		if w.Upgraded {
			up = "upgraded"
		}
		add("ws", up, number64(int64(w.Status)), w.Subprotocol, pair("first frame ", w.FirstFrame), w.FrameCode, w.FrameMessage, pair("closed ", number64(int64(w.CloseCode))), w.CloseReason, ms(w.DurationMS))
	}
	if t := f.PTY; t != nil {
		nonce := "nonce not computed"
		if t.NonceOK {
			nonce = "nonce computed by the shell"
		}
		add("pty", nonce, pair("first byte ", ms(t.FirstByteMS)), ms(t.DurationMS))
	}
	if s := f.SSH; s != nil {
		add("ssh", s.User, s.Banner, pair("host key ", s.HostKeyType), s.HostKeySHA256, pair("by ", s.AuthMethod), pair("through ", s.Jump), pair("helper ", s.Helper), s.HelperVersion)
		add("  took", pair("tcp ", ms(s.TCPMS)), pair("banner ", ms(s.BannerMS)), pair("auth ", ms(s.AuthMS)), pair("exec ", ms(s.ExecMS)))
	}
}

func host(f *diag.Fact, add adder) {
	if d := f.Disk; d != nil {
		written, ro := "", ""
		if d.WrittenBytes != nil {
			written = fmt.Sprintf("%d bytes written", *d.WrittenBytes)
		}
		if d.ReadOnly {
			ro = "read-only"
		}
		add("disk", d.FSType, fmt.Sprintf("%d%% used", d.UsedPercent), fmt.Sprintf("%d MiB free of %d", d.FreeBytes>>20, d.TotalBytes>>20), ro, written, pair("same file system as ", d.SameAs))
	}
	if d := f.File; d != nil {
		add("file", d.Path, pair("is ", d.Resolved), fmt.Sprintf("%d bytes", d.Size), "mode "+d.Mode, pair("sha256 ", clip(d.SHA256)), pair("on the plain host ", clip(d.HostSHA)))
	}
	if d := f.Cert; d != nil {
		add("cert", d.Leaf.Subject, pair("issued by ", d.Leaf.Issuer), pair("serial ", d.Leaf.Serial), "until "+d.Leaf.NotAfter.UTC().Format(diag.TimeLayout), yes(d.KeyMatches, "key matches", "key does not match"), yes(d.NodeBound, "bound to this node", "not bound to this node"), pair("bound to ", d.BoundTo))
	}
	if d := f.Unit; d != nil {
		add("unit", d.Load, d.Active, d.Sub, d.Result, pair("process ", number64(int64(d.PID))), pair("state ", d.ProcessState), seconds("up ", d.UptimeS), pair("listens on ", strings.Join(d.Listening, " ")), strings.Join(d.DropIns, " "), restarts(d))
	}
	if d := f.Binary; d != nil {
		add("program", d.Path, d.Version, pair("Go program ", d.GoMain), yes(d.OurAgent, "", "not gpuaas-agent"), d.Machine, pair("machine ", d.Host), pair("sha256 ", clip(d.SHA256)), pair("running ", clip(d.Running)))
	}
	if d := f.User; d != nil {
		add("user", d.Name, fmt.Sprintf("uid %d", d.UID), d.Home, d.Shell, yes(d.ShellOK, "", "shell missing"), yes(d.HomeOK, "", "home missing"))
	}
	if d := f.Clock; d != nil {
		off := ""
		if d.OffsetMS != nil {
			off = fmt.Sprintf("%+d ms to the operator", *d.OffsetMS)
		}
		add("clock", off, yes(d.Synchronized, "synchronized", "not synchronized"), seconds("up ", d.UptimeS))
	}
	if d := f.Env; d != nil {
		add("env", "of the "+d.Source)
		for _, k := range sortedKeys(d.Values) {
			add("  "+Clean(k), d.Values[k])
		}
		for _, k := range sortedKeys(d.Secret) {
			add("  "+Clean(k), d.Secret[k])
		}
	}
}

// restarts is what was measured of a unit's automatic restarts.
func restarts(u *diag.UnitFacts) string {
	var parts []string
	if u.Restarts != nil && *u.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("%d automatic restarts since it was started by hand", *u.Restarts))
	}
	if r := u.Recent; r != nil {
		parts = append(parts, fmt.Sprintf("%d in the last %d s", r.Count, r.WithinS))
	}
	if l := u.Later; l != nil {
		parts = append(parts, fmt.Sprintf("%d ms later %s (%s), process %d", l.AfterMS, l.Active, l.Sub, l.PID))
	}
	return strings.Join(parts, ", ")
}

// pair is a value behind its label, nothing when there is no value.
func pair(label, v string) string {
	if v == "" {
		return ""
	}
	return label + v
}

func number64(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func seconds(label string, s *int64) string {
	if s == nil {
		return ""
	}
	return label + diag.Millis(*s*1000).Words()
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

// clip shortens a digest to what people compare.
func clip(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}
