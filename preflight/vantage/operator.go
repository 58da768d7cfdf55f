// Package vantage is where a probe runs: in this process (Operator) or on a node over SSH (Node).
//
// More than 25 files: what runs a program on a node (exec, stream, once) shares the one connection of a login.
//
// A vantage answers every request with a fact and gives no verdict. The node's vantage has one SSH connection with one
// exec channel, on which `gpuaas-agent probe` serves the same probe code that the operator's vantage calls. The login
// itself, failed or not, is also a measurement, diag.OpSSH, which the vantage answers. Host keys are always verified.
// Callers are the walk in package preflight, the drill runner, and the commands under `gpuaasctl ssh`.
package vantage

import (
	"cmp"
	"context"
	"os"

	"github.com/tidwall/gjson"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/probe"
)

// The names of the two vantages, as in diag.Fact.Vantage.
const (
	operatorName = "operator"
	nodeName     = probe.VantageNode
)

// Local is the operator's own process as a vantage.
type Local struct{ prober *probe.Prober }

// Operator returns a vantage that measures from this process with p. It adds to p all of gjson's path syntax and
// separate queries to each name server. A nil p is a prober without settings.
func Operator(p *probe.Prober) *Local {
	if p == nil {
		p = &probe.Prober{}
	}
	p.Vantage = cmp.Or(p.Vantage, operatorName)
	if p.Net.Lookup == nil {
		p.Net.Lookup = lookup
	}
	if p.Net.AskServer == nil {
		p.Net.AskServer = askServer
	}
	if p.Net.ProxyOf == nil {
		p.Net.ProxyOf = httpProxyOf(os.Getenv)
	}
	return &Local{prober: p}
}

// lookup is a netprobe.Lookup with the whole path syntax that a profile may use for the platform's answers to an
// operator.
func lookup(doc []byte, path string) (string, bool) {
	v := gjson.GetBytes(doc, path)
	return v.String(), v.Exists() && v.Type != gjson.Null
}

// Name is "operator".
func (l *Local) Name() string { return operatorName }

// Probe answers every request, in order.
func (l *Local) Probe(ctx context.Context, reqs []diag.Request) []diag.Fact {
	return l.prober.Probe(ctx, reqs)
}

// Ahead is probe.Prober's.
func (l *Local) Ahead(ctx context.Context, req diag.Request) { l.prober.Ahead(ctx, req) }

// HoldSession is probe.Prober's.
func (l *Local) HoldSession(ctx context.Context, req diag.Request, lines string, opened func()) diag.Fact {
	return l.prober.HoldSession(ctx, req, lines, opened)
}

// Info describes the vantage for a report.
func (l *Local) Info() diag.VantageInfo {
	host, err := os.Hostname()
	if err != nil {
		host = "" // a machine without a name
	}
	return diag.VantageInfo{ID: operatorName, How: "in process", Host: host}
}

// Close closes the connections that the prober kept open.
func (l *Local) Close() error {
	l.prober.Close()
	return nil
}
