package vantage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaasctl/diag"
	hostprobe "github.com/gpuaas/gpuaasctl/preflight/probe/host"
	netprobe "github.com/gpuaas/gpuaasctl/preflight/probe/net"
	"github.com/gpuaas/gpuaasctl/preflight/probe/scrub"
)

// The phases of a login, in order, as in diag.Fact.Phase of OpSSH. A failed look-up of a name has the phase dns.
const (
	phaseConfig  = "config"
	phaseDNS     = "dns"
	phaseTCP     = "tcp"
	phaseBanner  = "banner"
	phaseHostKey = "host_key" // key exchange and the server's key
	phaseAuth    = "auth"
	phaseExec    = "exec"
)

// phaseSSH is the phase of every other request that could not be made because the login failed.
const phaseSSH = "ssh"

// NotFound reports whether err means that a host name does not exist.
func NotFound(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.phase == phaseDNS
}

// KeyUnknown reports whether err means that no key of the node itself was accepted yet. A changed key is another error.
func KeyUnknown(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.word == diag.SSHHostKeyUnknown
}

// foreignKept bounds how much of another program's output goes into a detail.
const foreignKept = 240

// refusal is why the node cannot be reached.
type refusal struct {
	word   diag.Failure
	phase  string
	errno  string
	detail string

	shortage *diag.ShortageFacts // the resource that this machine ran out of
}

func (r *refusal) Error() string {
	if r.detail == "" {
		return string(r.word) + " at " + r.phase
	}
	return string(r.word) + " at " + r.phase + ": " + r.detail
}

// stopped is the refusal of a login that ended in the given phase because ctx did.
func stopped(ctx context.Context, phase, detail string) *refusal {
	word := diag.Cancelled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		word = diag.Timeout
		switch phase {
		case phaseDNS:
			word = diag.DNSTimeout
		case phaseTCP:
			word = diag.TCPTimeout
		}
	}
	return &refusal{word: word, phase: phase, detail: detail}
}

// configRefusal is the refusal of a login that the operator's own settings prevented.
func configRefusal(ctx context.Context, err error) *refusal {
	if ctx.Err() != nil {
		return stopped(ctx, phaseConfig, err.Error())
	}
	return &refusal{word: diag.SSHSetup, phase: phaseConfig, detail: err.Error()}
}

// atJump marks a refusal as one by a jump host, or on the path to it: the node was not reached. A refusal because the
// caller gave up, or because this machine ran out of a resource, is not about the jump host and stays unchanged.
func (r *refusal) atJump(name string) *refusal {
	if name == "" || r.word == diag.Cancelled || r.word == diag.HostExhausted {
		return r
	}
	detail := "at jump host " + name + ": " + r.word.Words()
	if r.detail != "" {
		detail += ": " + r.detail
	}
	return &refusal{word: diag.SSHJump, phase: r.phase, errno: r.errno, detail: detail}
}

// dialRefusal is the refusal for a failed connection attempt.
func dialRefusal(ctx context.Context, t *target, err error) *refusal {
	word, phase, errno := netprobe.ClassifyDial(ctx, err)
	var open *ssh.OpenChannelError
	if errors.As(err, &open) && open.Reason == ssh.Prohibited {
		return &refusal{word: diag.SSHJump, phase: phaseTCP,
			detail: "the jump host does not forward to " + t.address() + ": " + foreign(open.Message)}
	}
	return &refusal{word: word, phase: phase, errno: errno, detail: foreign(err.Error()),
		shortage: hostprobe.Shortage(err, t.address())}
}

// handshakeRefusal is the refusal for a login that failed in phase, with the text that the peer sent before its banner.
func handshakeRefusal(ctx context.Context, phase string, w *wire, t *target, keys *credentials, err error) *refusal {
	if r := penalty(w); phase == phaseBanner && r != nil {
		return r
	}
	if words := keys.unsigned(); words != "" && phase == phaseAuth && !errors.Is(ctx.Err(), context.Canceled) {
		return &refusal{word: diag.SSHNoKey, phase: phaseAuth, detail: words}
	}
	if ctx.Err() != nil {
		return stopped(ctx, phase, silence(phase, t))
	}
	var key *hostKeyError
	var algo *ssh.AlgorithmNegotiationError
	switch {
	case errors.As(err, &key):
		word := diag.SSHHostKey
		if key.unknown {
			word = diag.SSHHostKeyUnknown
		}
		return &refusal{word: word, phase: phaseHostKey, detail: key.text}
	case errors.As(err, &algo) && strings.Contains(algo.What, "host key"):
		return &refusal{word: diag.SSHHostKey, phase: phaseHostKey, detail: offers(t, algo)}
	case errors.As(err, &algo):
		return &refusal{word: diag.SSHTransport, phase: phaseHostKey, detail: offers(t, algo)}
	}
	if p, ok := w.Conn.(*piped); ok && phase != phaseAuth {
		return &refusal{word: diag.SSHJump, phase: phase,
			detail: withWords(t.proxy.String()+" gave no SSH server", p.why())}
	}
	switch phase {
	case phaseBanner:
		return bannerRefusal(w, err)
	case phaseAuth:
		return authRefusal(t, keys, err)
	}
	return &refusal{word: diag.SSHTransport, phase: phase, errno: probeErrno(err),
		detail: "the key exchange broke off: " + foreign(reason(err))}
}

// withOptions adds to a login's failure the options of ssh_config that this program does not use.
func (r *refusal) withOptions(t *target) *refusal {
	if options := t.notUsed(true); len(options) > 0 && r.word != diag.Cancelled {
		r.detail += "; not used here: " + strings.Join(options, ", ")
	}
	return r
}

// penaltyWords are OpenSSH's messages when it refuses a connection before its banner: 9.8 and later for an address with
// a penalty, every version for too many unauthenticated connections.
var penaltyWords = [...]string{"not allowed at this time", "exceeded maxstartups"}

// penalty returns the refusal of a server that sent one of penaltyWords; nil for any other text.
func penalty(w *wire) *refusal {
	_, words := w.firstText()
	text := foreign(string(words))
	for _, p := range penaltyWords {
		if strings.Contains(strings.ToLower(text), p) {
			return &refusal{word: diag.SSHPenalty, phase: phaseBanner, detail: "the server turned us away: " + text}
		}
	}
	return nil
}

func bannerRefusal(w *wire, err error) *refusal {
	_, words := w.firstText()
	r := &refusal{word: diag.SSHTransport, phase: phaseBanner, errno: probeErrno(err)}
	if len(words) > 0 {
		r.detail = fmt.Sprintf("the peer is not an SSH server; it sent %q", foreign(string(words)))
		return r
	}
	r.detail = "the connection was closed before any banner (" + foreign(reason(err)) +
		"); a server does that if it has too many unauthenticated connections, or penalises this address"
	return r
}

func authRefusal(t *target, keys *credentials, err error) *refusal {
	text := err.Error()
	refused := errors.Is(err, errNoPassword) || strings.Contains(text, "unable to authenticate") ||
		strings.Contains(text, "ssh: disconnect") ||
		strings.Contains(text, "public key signature algorithm") || strings.Contains(text, "agent")
	if !refused {
		r := &refusal{word: diag.SSHTransport, phase: phaseAuth, errno: probeErrno(err),
			detail: "the login broke off: " + foreign(reason(err))}
		if key := keys.accepted.Load(); key != nil {
			r.detail = "the server accepts the key " + *key + ", and then the login broke off (" + foreign(reason(err)) +
				"); a server does that if its PAM rules do not admit user " + t.user
		}
		return r
	}
	r := &refusal{word: diag.SSHAuth, phase: phaseAuth}
	if len(keys.signers) == 0 {
		r.word = diag.SSHNoKey
		r.detail = "nothing to log in with as " + t.user + ": " + keys.why()
		return r
	}
	if !keys.publicKeys.Load() {
		r.detail = "the server accepts no public keys for user " + t.user +
			": it offers keyboard-interactive, GSSAPI or host-based logins"
		if keys.passwords.Load() {
			r.detail = "the server accepts no public keys for user " + t.user + ": it offers password"
		}
		return r
	}
	r.detail = keys.refused(t.user)
	if why := keys.why(); why != "" {
		r.detail += "; not offered: " + why
	}
	if strings.Contains(text, "ssh: disconnect") || strings.Contains(text, "signature algorithm") {
		r.detail += "; " + foreign(reason(err))
	}
	return r
}

// silence describes what the peer did not send.
func silence(phase string, t *target) string {
	switch phase {
	case phaseConfig:
		return "the login was not attempted"
	case phaseDNS:
		return "the name " + t.host + " was not looked up in time"
	case phaseTCP:
		return t.address() + " did not answer the connection"
	case phaseBanner:
		return t.address() + " accepted the connection and sent no SSH banner"
	case phaseHostKey:
		return t.address() + " sent its banner and did not finish the key exchange"
	}
	return t.address() + " did not finish the login"
}

// reason returns err's shortest text that still has the cause.
func reason(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		strings.HasSuffix(err.Error(), "in response to channel open: <nil>"):
		return "end of stream"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	}
	return strings.TrimPrefix(err.Error(), "ssh: handshake failed: ")
}

// foreign prepares another program's text for a report: one line, short, scrubbed of secrets.
func foreign(s string) string { return clip(scrub.Text(s), foreignKept) }

func probeErrno(err error) string {
	if !errors.Is(err, syscall.ECONNRESET) {
		return ""
	}
	return "ECONNRESET"
}

// clip shortens foreign text for a detail, on one line.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
