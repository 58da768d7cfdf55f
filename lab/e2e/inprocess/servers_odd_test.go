//go:build linux

package inprocess

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// oddIngress is a node ingress on Go's TLS that ends connections as no library would: with any alert, at any time.
type oddIngress struct {
	ca      []byte // whose certificates it asks for
	version uint16
	none    func(c *oddConn) // handles clients without a certificate
	shown   func(c *oddConn) // and to who does
	early   func(c *oddConn) // called in the middle of the handshake, instead of the others
}

// oddConn is a connection of an oddIngress, with the keys to send its own alerts.
type oddConn struct {
	net.Conn // beneath TLS
	tls      *tls.Conn
	keys     bytes.Buffer
	version  uint16
	early    func(c *oddConn)
	sent     int
}

// Read ends the connection in the middle of the handshake: after the server's first flight.
func (c *oddConn) Read(b []byte) (int, error) {
	if c.early != nil && c.sent > 0 {
		c.early(c)
		return 0, io.EOF
	}
	return c.Conn.Read(b)
}

func (c *oddConn) Write(b []byte) (int, error) {
	c.sent++
	return c.Conn.Write(b)
}

// alert sends an alert: in the clear before there are keys, and otherwise as the first record under the keys of
// TLS 1.3.
func (c *oddConn) alert(code byte) {
	if c.tls == nil || c.version == tls.VersionTLS12 {
		_, _ = c.Conn.Write([]byte{21, 3, 3, 0, 2, 2, code})
		return
	}
	var secret []byte
	for line := range strings.Lines(c.keys.String()) {
		if words := strings.Fields(line); words[0] == "SERVER_TRAFFIC_SECRET_0" {
			secret, _ = hex.DecodeString(words[2])
		}
	}
	expand := func(label string, n int) []byte {
		info := append([]byte{0, byte(n), byte(len("tls13 " + label))}, "tls13 "+label+"\x00"...)
		key, _ := hkdf.Expand(sha256.New, secret, string(info), n)
		return key
	}
	block, _ := aes.NewCipher(expand("key", 16))
	seal, _ := cipher.NewGCM(block)
	head := []byte{23, 3, 3, 0, byte(3 + seal.Overhead())}
	_, _ = c.Conn.Write(append(head, seal.Seal(nil, expand("iv", 12), []byte{2, code, 21}, head)...))
}

// run serves on d's port until the end of the cell.
func (o oddIngress) run(t *testing.T, d door) (end func()) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(d.cert, d.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(o.ca)
	ln := listenAgain(t, d.port)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { o.serve(raw, pair, pool) })
		}
	})
	return func() { _ = ln.Close(); wg.Wait() }
}

func (o oddIngress) serve(raw net.Conn, pair tls.Certificate, pool *x509.CertPool) {
	defer raw.Close()
	c := &oddConn{Conn: raw, version: o.version, early: o.early}
	conn := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: o.version, MaxVersion: o.version,
		ClientAuth: tls.RequestClientCert, ClientCAs: pool, SessionTicketsDisabled: true, KeyLogWriter: &c.keys,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}})
	if conn.Handshake() != nil {
		return
	}
	c.tls = conn
	do := o.none
	if len(conn.ConnectionState().PeerCertificates) > 0 {
		do = o.shown
	}
	_, _ = conn.Read(make([]byte, 4096))
	do(c)
}

// raw responds with the given bytes.
func raw(text string) func(*oddConn) { return func(c *oddConn) { _, _ = io.WriteString(c.tls, text) } }

func alerts(code byte) func(*oddConn) { return func(c *oddConn) { c.alert(code) } }

func closes(*oddConn) {}

func resets(c *oddConn) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// TestOddIngresses: whatever a node ingress does about a certificate, one cause has one verdict, and no text
// contradicts the observation.
func TestOddIngresses(t *testing.T) {
	t.Parallel()
	b := startBehind(t, server{name: "go"})
	end := b.server.run(t, b.doors[:ingressDoor])
	defer end()
	refusals := map[string]func(*oddConn){
		"closes": closes, "resets": resets, "401": raw("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
		"403 in HTTP/1.0": raw("HTTP/1.0 403 Forbidden\r\nContent-Type: text/plain\r\n\r\nno"),
		"400":             raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
	}
	for code := range 121 {
		if all := os.Getenv("GPUAASCTL_ALL_ALERTS") != ""; code != noProtocol &&
			(all || slices.Contains([]int{40, 42, 48, 80}, code)) {
			refusals[fmt.Sprintf("alert %d", code)] = alerts(byte(code))
		}
	}
	for name, refuse := range refusals {
		b.odd(t, "drift, "+name, oddIngress{ca: []byte(b.platform.CAPEM), none: closes, shown: refuse},
			diag.SigIngressCADrift)
		// Only in these cases does an ingress show that it rejected a certificate which it should accept.
		want := diag.SigAPIUnreachable
		switch name {
		case "alert 48": // unknown_ca, which the terminal gateway sends as well
			want = diag.SigIngressCADrift
		case "alert 42", "alert 43", "alert 44", "alert 45", "alert 46", "alert 49",
			"alert 116":
			want = diag.SigAuthFailed
		}
		b.odd(t, "good certificate, "+name, oddIngress{ca: b.platform.SigningCA(), none: refuse, shown: refuse}, want)
	}
	for name, text := range map[string]string{
		"1xx without an end": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000), "HTTP/0.9": "hello\r\n",
		"half a head":        "HTTP/1.1 200 OK\r\nContent-Le",
		"a page in HTTP/1.0": "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<html>hello", "alert 120": "",
	} {
		answer := raw(text)
		if text == "" {
			answer = alerts(noProtocol)
		}
		b.odd(t, name, oddIngress{ca: b.platform.SigningCA(), none: closes, shown: answer}, diag.SigAPIUnreachable)
	}
	b.odd(t, "redirects without an end", oddIngress{ca: b.platform.SigningCA(), none: closes,
		shown: raw("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")}, "")
}

// noProtocol is the alert of ALPN.
const noProtocol = 120

// odd walks past an odd ingress. The verdict must blame it with this signal; with "", it must blame no hop and not
// pass.
func (b *behind) odd(t *testing.T, name string, o oddIngress, want diag.Signal) {
	t.Helper()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(fmt.Sprintf("%s, %s", name, tls.VersionName(version)), func(t *testing.T) {
			o.version, o.early = version, nil
			// with TLS 1.2 they arrive during the handshake
			if version == tls.VersionTLS12 && strings.Contains(name, "alert") {
				o.early = o.shown
			}
			b.nodeFiles(t)
			end := o.run(t, b.doors[ingressDoor])
			defer end()
			insist(t, func() []string {
				r := b.walk(t)
				wrong, signal := slips(r), diag.Signal("")
				if b := r.Verdict.Blame; b != nil {
					signal = b.Signal
				}
				if signal != want || r.Verdict.Outcome == diag.OutcomePass {
					wrong = append(wrong, fmt.Sprintf("signal %q, want %q\n%s", signal, want, describe(r)))
				}
				for _, h := range r.Hops { // its bundle is good
					if strings.Contains(h.Text+h.Because, "does not trust") {
						wrong = append(wrong, string(h.ID)+": "+h.Text+h.Because)
					}
				}
				return wrong
			})
		})
	}
}
