package platform_test

import (
	"bytes"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestForgedIngress: a program on the platform's machine sets the headers of the node ingress itself, with the
// certificate of a node and without its key. It is denied with any secret that it invents.
func TestForgedIngress(t *testing.T) {
	log := &bytes.Buffer{}
	p := platformtest.StartPlatform(t, platformtest.Options{Log: log})
	cred := p.Enroll(platformtest.NodeID)
	beat(t, p, cred, wire.HeartbeatRequest{}) // the honest way works
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cred.Pair.Certificate[0]})
	for name, secret := range map[string]string{"none": "", "made up": "0123456789"} {
		for method, at := range map[string]string{http.MethodGet: wire.PathTaskWait + "?timeout=0",
			http.MethodPost: wire.PathHeartbeat} {
			req, err := http.NewRequestWithContext(t.Context(), method, p.NodeAPIListener+path(at, platformtest.NodeID),
				strings.NewReader(`{"node_instance_id":"thief"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(wire.HeaderClientVerify, "SUCCESS")
			req.Header.Set(wire.HeaderClientCert, url.PathEscape(string(text)))
			req.Header.Set("X-Real-IP", "192.0.2.7")
			if secret != "" {
				req.Header.Set(wire.HeaderIngress, secret)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "ingress_required") {
				t.Errorf("secret %s, %s: %d %s", name, at, resp.StatusCode, body)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	instances, err := p.Store().Instances(t.Context(), platformtest.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range instances {
		if i.ID == "thief" {
			t.Error("the forged heartbeat was stored")
		}
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "did not come through the node ingress") {
		t.Error("the log says nothing of it")
	}
}

// TestRedisPassword: the gateway logs in to its session store, and one with another password binds nothing.
func TestRedisPassword(t *testing.T) {
	tier.NeedsHost(t)
	redis := miniredis.RunT(t)
	redis.RequireUserAuth("gpuaas", "of the store")
	for password, right := range map[string]bool{"of the store": true, "another": false} {
		p := platformtest.StartPlatform(t, platformtest.Options{Redis: redis.Addr(), Config: func(c *platform.Config) {
			c.RedisUser, c.RedisPasswordFile = "gpuaas", secretFile(t, password)
		}})
		fakeNode{t, p, p.Enroll(platformtest.NodeID)}.stream(func(conn *websocket.Conn) {
			sendFrame(t, conn, wire.Frame{Type: "ready", CorrelationID: correlationID})
		})
		m := mint(t, p)
		conn, resp, err := attach(t, p, m.URL, m.Token)
		if !right {
			if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("with another password: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if f := readFrame(t, conn); f.Type != "ready" {
			t.Errorf("with the password: %+v", f)
		}
	}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
