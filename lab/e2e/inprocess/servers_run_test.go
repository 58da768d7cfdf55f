//go:build linux

package inprocess

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/hosttools"
	"github.com/gpuaas/gpuaasctl/tools/testkit/logtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/porttest"
)

// server is a kind of server that platforms have in front of them.
type server struct {
	name string
	conf func(dir, program string, doors []door) (files map[string]string, args []string) // nil: Go's own, in this process
}

// servers are Debian's, and Go's own reverse proxy.
var servers = []server{
	{"nginx", nginxConf}, {"haproxy", haproxyConf}, {"apache2", apacheConf}, {"caddy", caddyConf}, {"go", nil},
}

// run starts the server with its doors and returns a function that stops it. It returns when all doors accept
// connections.
func (s server) run(t *testing.T, doors []door) (end func()) {
	t.Helper()
	if s.conf == nil {
		return runGo(t, doors)
	}
	program, env := hosttools.Find(s.name)
	dir := t.TempDir()
	files, args := s.conf(dir, program, doors)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, said := exec.Command(program, args...), &logtest.Log{}
	cmd.Env = append(os.Environ(), append(env, "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, said, said, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	end = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill its workers as well: it leads its own process group
		<-ended
		if t.Failed() {
			t.Logf("%s said: %s", s.name, said)
		}
	}
	for _, d := range doors {
		if err := awaitPort(t.Context(), d.port, ended); err != nil {
			end()
			t.Fatalf("%s: %v\n%s\n%s", s.name, err, said, files)
		}
	}
	return end
}

// awaitPort returns when a port accepts connections, or with an error if the server ends first.
func awaitPort(ctx context.Context, port int, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-ended:
			cancel(errors.New("it has ended"))
		case <-ctx.Done():
		}
	}()
	var err error
	if !await(ctx, time.Minute, func() bool {
		var c net.Conn
		if c, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			err = c.Close()
			return true
		}
		return false
	}) {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// runGo is the same server in Go, with only the standard library.
func runGo(t *testing.T, doors []door) (end func()) {
	t.Helper()
	var all []*http.Server
	quiet := log.New(io.Discard, "", 0)
	for _, d := range doors {
		pair, err := tls.LoadX509KeyPair(d.cert, d.key)
		if err != nil {
			t.Fatal(err)
		}
		version := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[d.tls]
		cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: version, MaxVersion: version,
			NextProtos: []string{"http/1.1"}}
		if d.h2 {
			cfg.NextProtos = []string{"h2"}
		}
		if d.unnamed {
			cfg.Certificates = nil
		}
		if d.clients != "" {
			d.verifyClients(t, cfg)
		}
		ln := tls.NewListener(listenAgain(t, d.port), cfg)
		transport := &http.Transport{}
		if d.impatient {
			transport.ResponseHeaderTimeout = 300 * time.Millisecond
		}
		proxy := &httputil.ReverseProxy{Transport: transport, ErrorLog: quiet, FlushInterval: -1, Rewrite: d.rewrite,
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				var late net.Error
				if errors.As(err, &late) && late.Timeout() {
					w.WriteHeader(http.StatusGatewayTimeout)
					return
				}
				w.WriteHeader(http.StatusBadGateway)
			}}
		if d.noChoice {
			proxy.ModifyResponse = func(r *http.Response) error { r.Header.Del("Sec-WebSocket-Protocol"); return nil }
		}
		s := &http.Server{Handler: d.handler(proxy), ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
		all = append(all, s)
		go func() { _ = s.Serve(ln); transport.CloseIdleConnections() }()
	}
	return func() {
		for _, s := range all {
			_ = s.Close()
		}
	}
}

// verifyClients makes the listener request certificates.
func (d door) verifyClients(t *testing.T, cfg *tls.Config) {
	t.Helper()
	text, err := os.ReadFile(d.ca)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ClientCAs = x509.NewCertPool()
	cfg.ClientCAs.AppendCertsFromPEM(text)
	cfg.ClientAuth = map[string]tls.ClientAuthType{certRequired: tls.RequireAndVerifyClientCert,
		certOptional: tls.VerifyClientCertIfGiven, certOrClose: tls.VerifyClientCertIfGiven,
		certOr403: tls.RequestClientCert}[d.clients]
	if d.crl == "" {
		return
	}
	if text, err = os.ReadFile(d.crl); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		for _, c := range cs.PeerCertificates {
			for _, r := range list.RevokedCertificateEntries {
				if r.SerialNumber.Cmp(c.SerialNumber) == 0 {
					return errors.New("revoked")
				}
			}
		}
		return nil
	}
}

// rewrite passes a request on as the other servers do.
func (d door) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(&url.URL{Scheme: "http", Host: d.backend})
	r.Out.Host = r.In.Host
	if d.noUpgrade {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
	if d.clients == "" {
		return
	}
	if !d.secretly {
		r.Out.Header.Set(headerIngress, d.secret)
	}
	if d.withholds {
		return
	}
	r.Out.Header.Set(headerVerify, "NONE")
	if certs := r.In.TLS.PeerCertificates; len(certs) > 0 {
		r.Out.Header.Set(headerVerify, "SUCCESS")
		r.Out.Header.Set(headerCert,
			url.PathEscape(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs[0].Raw}))))
	}
}

// handler handles the requests that this door does not pass on.
func (d door) handler(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		certs := r.TLS.PeerCertificates
		switch {
		case d.clients == certOrClose && len(certs) == 0:
			panic(http.ErrAbortHandler)
		case d.clients == certOr403 && !d.trusts(certs):
			w.WriteHeader(http.StatusForbidden)
		case d.redirect != "":
			http.Redirect(w, r, d.redirect, http.StatusFound)
		case d.status != 0 && (d.only == "" || d.only == r.URL.Path):
			w.Header().Set("Content-Type", d.pageKind())
			w.WriteHeader(d.status)
			_, _ = io.WriteString(w, d.page)
		default:
			proxy.ServeHTTP(w, r)
		}
	})
}

func (d door) trusts(certs []*x509.Certificate) bool {
	text, err := os.ReadFile(d.ca)
	pool := x509.NewCertPool()
	if err != nil || len(certs) == 0 || !pool.AppendCertsFromPEM(text) {
		return false
	}
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// lastingPort returns a port that a server can release and take again until the end of the test: it is below the
// ephemeral ports (ip_local_port_range), so that no connection gets it, and a socket with its name reserves it
// among other servers' tests.
func lastingPort(t *testing.T) int {
	t.Helper()
	const lowest = 12000
	end := 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &end)
	}
	for range 1000 {
		port := lowest + rand.IntN(max(end-lowest, 1))
		name, err := net.Listen("unix", fmt.Sprintf("@gpuaasctl-test-port-%d", port))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = name.Close() })
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = ln.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// listenAgain listens on a port again: a process that was forked in between holds the old listener until it has
// executed its own program.
func listenAgain(t *testing.T, port int) net.Listener {
	t.Helper()
	var ln net.Listener
	var err error
	if !await(t.Context(), time.Minute, func() bool {
		ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil
	}) {
		t.Fatal(err)
	}
	return ln
}

// backends that are not the platform.
const (
	deadBackend    = "refuses connections"
	garbageBackend = "answers no HTTP"
	silentBackend  = "answers nothing"
	halfBackend    = "breaks off each answer"
)

// serve returns the address of such a backend. It ends with the test.
func serve(t *testing.T, kind string) string {
	t.Helper()
	if kind == deadBackend {
		return porttest.TCP(t)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 4096))
				if kind == halfBackend {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+
						"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n")
					return
				}
				if kind == garbageBackend {
					_, _ = c.Write(bytes.Repeat([]byte{'\x00', '\xff'}, 64))
					return
				}
				_, _ = io.Copy(io.Discard, c) // until the server has enough
			}()
		}
	}()
	return ln.Addr().String()
}
