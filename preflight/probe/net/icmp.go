package net

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gpuaas/gpuaasctl/diag"
)

// prohibited is the refusal of a connection attempt by policy, and who refused it.
type prohibited struct {
	error
	by   netip.Addr // the sender of the ICMPv6 error; the zero address: none came, so the kernel itself refused
	code uint8      // of ICMPv6 type 1
	own  bool       // the sender is this machine
}

func (p *prohibited) Error() string {
	if !p.by.IsValid() {
		return p.error.Error()
	}
	return fmt.Sprintf("%s: ICMPv6 destination unreachable, code %d, from %s", p.error.Error(), p.code, p.by)
}

func (p *prohibited) Unwrap() error { return p.error }

// elsewhere reports whether another machine refused the attempt.
func (p *prohibited) elsewhere() bool { return p.by.IsValid() && !p.own }

// refusedBy records who refused a connection attempt, where the kernel reports it.
func refusedBy(t *diag.TCPFacts, err error) {
	p, ok := errors.AsType[*prohibited](err)
	switch {
	case !ok:
	case p.elsewhere():
		t.ProhibitedBy = p.by.String()
	default:
		t.RefusedHere = true
	}
}
