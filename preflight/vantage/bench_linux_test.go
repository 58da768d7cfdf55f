package vantage

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuaas/gpuaasctl/diag"
)

// benchChild marks the process that runs in its own network namespace.
const benchChild = "GPUAASCTL_BENCH_CHILD"

// slowLink is a TUN device with one address. A packet to the other address of its network returns after a delay, with
// source and destination swapped (which keeps checksums valid). So a server on near is reachable at far over real TCP
// with a configured round-trip time.
type slowLink struct {
	tun   *os.File
	delay atomic.Int64 // one way, in nanoseconds
}

const (
	near = "198.18.0.1"
	far  = "198.18.0.2"
)

func newSlowLink(b *testing.B) *slowLink {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		b.Skip("needs /dev/net/tun: ", err)
	}
	var req struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "slow0")
	req.flags = syscall.IFF_TUN | syscall.IFF_NO_PI
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF,
		uintptr(unsafe.Pointer(&req))); e != 0 {
		b.Skip("no TUN device here: ", e)
	}
	l := &slowLink{tun: os.NewFile(uintptr(fd), "tun")}
	for _, argv := range [][]string{{"ip", "link", "set", "lo", "up"}, {"ip", "addr", "add", near + "/24", "dev", "slow0"},
		{"ip", "link", "set", "slow0", "up"}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
		}
	}
	done := make(chan struct{})
	go func() { l.relay(); close(done) }()
	b.Cleanup(func() { _ = l.tun.Close(); <-done })
	return l
}

type delayed struct {
	at     time.Time
	packet []byte
}

func (l *slowLink) relay() {
	queue := make(chan delayed, 4096)
	var writer sync.WaitGroup
	writer.Go(func() {
		for d := range queue {
			time.Sleep(time.Until(d.at))
			_, _ = l.tun.Write(d.packet)
		}
	})
	defer writer.Wait()
	defer close(queue)
	for {
		p := make([]byte, 2048)
		n, err := l.tun.Read(p)
		if err != nil {
			return
		}
		if n < 20 || p[0]>>4 != 4 {
			continue
		}
		var src [4]byte
		copy(src[:], p[12:16])
		copy(p[12:16], p[16:20])
		copy(p[16:20], src[:])
		queue <- delayed{time.Now().Add(time.Duration(l.delay.Load())), p[:n]}
	}
}

// BenchmarkRoundTrips counts round trips to OpenSSH as the slope of time over RTT: for a cold login with its first
// request, for a later request, and, for comparison, for `ssh host true`. It runs in a network namespace.
func BenchmarkRoundTrips(b *testing.B) {
	if os.Getenv(benchChild) == "" {
		runInNamespace(b)
		return
	}
	link := newSlowLink(b)
	d := startSSHD(b, near)
	d.cfg.Host = far
	known, err := os.ReadFile(d.cfg.SSH.KnownHosts)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(d.cfg.SSH.KnownHosts, []byte(strings.ReplaceAll(string(known), near, far)), 0o600); err != nil {
		b.Fatal(err)
	}
	result := map[string]float64{}
	for name, once := range map[string]func(*testing.B, NodeConfig) time.Duration{
		"cold-login": coldLogin, "cold-login+question": coldAsk, "cold-login-then-question": coldThenAsk,
		"warm-question": warmAsk, "ssh-true": sshTrue,
	} {
		slope, base, r2 := slopeOf(b, link, d.cfg, once)
		result[name+"-rtt"], result[name+"-base-ms"], result[name+"-R2"] = slope, base, r2
	}
	out, err := json.Marshal(result)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv(benchChild), out, 0o600); err != nil {
		b.Fatal(err)
	}
}

func runInNamespace(b *testing.B) {
	file := filepath.Join(b.TempDir(), "result")
	cmd := exec.Command("unshare", "-n", os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkRoundTrips$",
		"-test.benchtime=1x")
	cmd.Env = append(os.Environ(), benchChild+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		b.Skipf("nothing was measured: %s", out)
	}
	var result map[string]float64
	if err := json.Unmarshal(text, &result); err != nil {
		b.Fatal(err)
	}
	for name, value := range result {
		b.ReportMetric(value, name)
	}
	b.ReportMetric(0, "ns/op")
}

// slopeOf fits the fastest of five runs at five round-trip times (it counts round trips, and a busy machine only adds
// noise); slope is in round trips, base in milliseconds.
func slopeOf(b *testing.B, link *slowLink, cfg NodeConfig,
	once func(*testing.B, NodeConfig) time.Duration) (slope, base, r2 float64) {
	var xs, ys []float64
	for _, rtt := range []time.Duration{0, 20, 40, 60, 100} {
		link.delay.Store(int64(rtt * time.Millisecond / 2))
		var took []time.Duration
		for range 5 {
			took = append(took, once(b, cfg))
		}
		xs, ys = append(xs, float64(rtt)), append(ys, slices.Min(took).Seconds()*1e3)
	}
	return fit(xs, ys)
}

func fit(xs, ys []float64) (slope, base, r2 float64) {
	n := float64(len(xs))
	var sx, sy, sxx, sxy, syy float64
	for i := range xs {
		sx, sy = sx+xs[i], sy+ys[i]
		sxx, sxy, syy = sxx+xs[i]*xs[i], sxy+xs[i]*ys[i], syy+ys[i]*ys[i]
	}
	slope = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	r := (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
	return slope, (sy - slope*sx) / n, r * r
}

func ask(b *testing.B, n *Node, ops ...diag.Op) time.Duration {
	var reqs []diag.Request
	for _, op := range ops {
		reqs = append(reqs, diag.Request{Op: op})
	}
	began := time.Now()
	for _, f := range n.Probe(b.Context(), reqs) {
		if f.Failure != diag.OK {
			b.Fatalf("%s: %q at %s: %s", f.Request.Op, f.Failure, f.Phase, f.Detail)
		}
	}
	return time.Since(began)
}

func fresh(b *testing.B, cfg NodeConfig, use func(n *Node) time.Duration) time.Duration {
	n := NewNode(cfg)
	defer func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	}()
	return use(n)
}

func coldLogin(b *testing.B, cfg NodeConfig) time.Duration {
	return fresh(b, cfg, func(n *Node) time.Duration { return ask(b, n, diag.OpSSH) })
}

func coldAsk(b *testing.B, cfg NodeConfig) time.Duration {
	return fresh(b, cfg, func(n *Node) time.Duration { return ask(b, n, diag.OpSSH, diag.OpClock) })
}

func coldThenAsk(b *testing.B, cfg NodeConfig) time.Duration {
	return fresh(b, cfg, func(n *Node) time.Duration { return ask(b, n, diag.OpSSH) + ask(b, n, diag.OpClock) })
}

func warmAsk(b *testing.B, cfg NodeConfig) time.Duration {
	return fresh(b, cfg, func(n *Node) time.Duration {
		ask(b, n, diag.OpClock)
		return ask(b, n, diag.OpClock)
	})
}

// sshTrue uses the same key exchange and keys as we do, so that only round trips differ.
func sshTrue(b *testing.B, cfg NodeConfig) time.Duration {
	cmd := exec.Command("ssh", "-F", "none", "-o", "KexAlgorithms=curve25519-sha256", "-o", "BatchMode=yes", "-o",
		"IdentitiesOnly=yes", "-o", "UserKnownHostsFile="+cfg.SSH.KnownHosts, "-i", cfg.SSH.Identity, "-p",
		strconv.Itoa(cfg.SSH.Port), "root@"+cfg.Host, "true")
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatal(fmt.Errorf("ssh: %w: %s", err, out))
	}
	return time.Since(began)
}
