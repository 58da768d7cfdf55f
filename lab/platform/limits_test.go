package platform_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/lab/platform"
	"github.com/gpuaas/gpuaasctl/lab/platform/platformtest"
	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

// TestHealthNamesFailingWrites: a platform whose disk takes no writes says so where its health is read.
func TestHealthNamesFailingWrites(t *testing.T) {
	for _, broken := range []bool{false, true} {
		p := platformtest.StartPlatform(t, platformtest.Options{})
		want := "ok"
		if broken {
			p.RefuseWrites()
			want = "failing"
		}
		var health struct{ Status, Writes string }
		if status, _ := p.Do(http.MethodGet, "/healthz", nil, &health); status != http.StatusOK || health.Writes != want ||
			(health.Status == "ok") == broken {
			t.Errorf("broken %t: %d %+v", broken, status, health)
		}
	}
}

// TestHungCoordinatorDelaysItsNode: decisions about several nodes do not wait for each other, and once it is known that
// the coordinator does not answer, each waits for a second.
func TestHungCoordinatorDelaysItsNode(t *testing.T) {
	tier.NeedsHost(t)
	hung := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung }))
	t.Cleanup(c.Close)
	t.Cleanup(func() { close(hung) })
	const n = 5
	var nodes []platform.SeedNode
	for i := range n {
		nodes = append(nodes, platform.SeedNode{ID: fmt.Sprint("n", i)})
	}
	p := platformtest.StartPlatform(t, platformtest.Options{Nodes: nodes, Config: func(cfg *platform.Config) {
		cfg.GPU = platform.GPU{Policy: "default", Coordinator: c.URL}
	}})
	cordon := func(node string) {
		if status, _ := p.Do(http.MethodPost, "/v1/admin/nodes/"+node+"/cordon", map[string]any{"reason": "test"},
			nil); status != http.StatusBadGateway {
			t.Errorf("%s: %d", node, status)
		}
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, node := range nodes {
		wg.Go(func() { cordon(node.ID) })
	}
	wg.Wait()
	for range 3 {
		cordon("n0")
	}
	if took := time.Since(began); took > 30*time.Second { // one after another: 80 s
		t.Errorf("%d decisions took %v", n+3, took)
	}
}

// TestPlainListenersAreLimited: a local program neither holds a plain listener's connections with half a body, nor more
// connections than the limit.
func TestPlainListenersAreLimited(t *testing.T) {
	tier.NeedsHost(t)
	limits := platform.PeerLimits{Request: time.Second, Connections: 3}
	p := platformtest.StartPlatform(t, platformtest.Options{Door: limits})
	for name, address := range map[string]string{"api": p.APIListener, "node_api": p.NodeAPIListener,
		"gateway": p.GatewayListener} {
		closed := make(chan struct{}, 9)
		for range cap(closed) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				_, _ = fmt.Fprintf(conn, "POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
				_, _ = io.Copy(io.Discard, conn)
				closed <- struct{}{}
			}()
		}
		late := time.After(30 * time.Second)
		for i := range cap(closed) {
			select {
			case <-closed:
			case <-late:
				t.Fatalf("%s: %d of %d connections are open", name, cap(closed)-i, cap(closed))
			}
		}
	}
}
