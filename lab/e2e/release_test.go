//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/chaos/drill"
	"github.com/gpuaas/gpuaasctl/lab"
	"github.com/gpuaas/gpuaasctl/tools/testkit/goldentest"
)

// TestReleaseIsFreeOnlyWhenEmpty runs the drill release-with-open-terminal, and checks many times a second with
// independent tools that the platform never reports the allocation as released while the node has a process of the
// login, and never reports the slot as free, since its tenant returns. The run becomes a recording if recordings
// are written.
func TestReleaseIsFreeOnlyWhenEmpty(t *testing.T) {
	l := needLab(t)
	green(t, node)
	const login = "tenant01"
	since := strings.TrimSpace(on(t, l, "compute-node-01", fmt.Sprintf(`pgrep -u %s >/dev/null; date +%%s`, login)))
	var watching sync.WaitGroup
	var empty, place string
	// Each sample is one line: its start, its end, and the observation. Sampling ends with the drill.
	const until = "/run/e2e-seen"
	t.Cleanup(func() {
		for _, machine := range []string{node, platform} {
			on(t, l, machine, "rm -f "+until)
		}
	})
	watching.Go(func() {
		empty = on(t, l, "compute-node-01", fmt.Sprintf(`until test -e %s; do
			from=$(date +%%s.%%N); n=$(pgrep -c -u %s || true); echo $from $(date +%%s.%%N) $n; sleep 0.05; done`, until, login))
	})
	watching.Go(func() {
		place = on(t, l, "platform",
			`printf 'Authorization: Bearer %s' "$(cat /etc/gpuaas-platform/operator.token)" >/run/e2e-header
			until test -e `+until+`; do from=$(date +%s.%N)
			o=$(curl -s -m 2 -H @/run/e2e-header http://127.0.0.1:8080/v1/allocations/alloc-01 | sed 's/.*"state":"\([a-z_]*\)","occupancy":"\([a-z]*\)".*/\1:\2/')
			echo $from $(date +%s.%N) $o; sleep 0.05; done; rm /run/e2e-header`)
	})
	out, stderr, code := try(t, 5*time.Minute, "chaos", "run", "release-with-open-terminal", "--profile", "lab",
		"--node-id", node, "--allocation-id", "alloc-01", "-o", "json")
	for _, machine := range []string{node, platform} {
		on(t, l, machine, "touch "+until)
	}
	watching.Wait()
	var r drill.Report
	if err := json.Unmarshal(out, &r); err != nil || code != 0 || len(r.Drills) != 1 {
		t.Fatalf("exit %d, %v\n%s\n%s", code, err, out, stderr)
	}
	if goldentest.Writing() {
		record(t, r.Drills[0])
	}
	if !strings.Contains(place, " releasing:cleanup\n") || strings.Contains(place, ":free") {
		t.Errorf("the place was not seen to be cleaned up, or it was seen to be free:\n%s", place)
	}
	// The drill undoes the release as soon as the node is empty, so the allocation may be released for only a few
	// milliseconds: use the times in the platform's own timeline.
	released, back := whileReleased(t, l, since)
	for line := range strings.Lines(empty) {
		var from, to float64
		var processes int
		if n, err := fmt.Sscan(line, &from, &to, &processes); n != 3 {
			t.Fatalf("%q: %v", line, err)
		}
		if processes > 0 && from > released && to < back {
			t.Errorf("it was released at %.3f, and a look of %.3f saw %d processes of %s", released, from, processes, login)
		}
	}
	t.Logf("released for %.3f s", back-released)
	log := on(t, l, "compute-node-01", "journalctl -u gpuaas-node-agent -o cat --no-pager --since=@"+since)
	if !strings.Contains(log, "why=allocation_released") {
		t.Errorf("the node's log does not say why the terminal ended:\n%s", log)
	}
}

// whileReleased returns from when to when the allocation was released according to the platform, in seconds since
// 1970. The platform's timeline has whole milliseconds, rounded down.
func whileReleased(t *testing.T, l *lab.Lab, since string) (from, to float64) {
	t.Helper()
	var timeline struct {
		Items []struct {
			At     time.Time
			Kind   string
			Detail struct{ From, To string }
		}
	}
	answer := on(t, l, "platform", `curl -sS -m 12 -H "Authorization: Bearer $(cat /etc/gpuaas-platform/operator.token)" `+
		`"http://127.0.0.1:8080/v1/admin/evidence?allocation_id=alloc-01&since=$(date -u -d @`+since+` +%Y-%m-%dT%H:%M:%SZ)"`)
	if err := json.Unmarshal([]byte(answer), &timeline); err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	for _, e := range timeline.Items {
		at := float64(e.At.UnixMilli()) / 1000
		switch {
		case e.Kind != "allocation.state_changed":
		case e.Detail.From == "releasing" && e.Detail.To == "released" && from == 0:
			from = at + 0.001
		case e.Detail.From == "released" && from != 0 && to == 0:
			to = at
		}
	}
	if from == 0 || to == 0 {
		t.Fatalf("the platform's timeline has no release and its end:\n%s", answer)
	}
	return from, to
}

// TestReleaseOfANodeThatIsAway: the platform ends the tenant's terminals at once and reports cleanup while the
// node does not respond; when it is back, the node ends every process of the login by itself, and the release
// completes.
func TestReleaseOfANodeThatIsAway(t *testing.T) {
	l := needLab(t)
	green(t, node)
	api := func(method, path, body string) string {
		t.Helper()
		return on(t, l, "platform",
			fmt.Sprintf(`curl -sS -m 12 -X %s -H "Authorization: Bearer $(cat /etc/gpuaas-platform/operator.token)" `+
				`-H 'Content-Type: application/json' -d '%s' http://127.0.0.1:8080%s`, method, body, path))
	}
	t.Cleanup(func() {
		on(t, l, "compute-node-01", "systemctl start gpuaas-node-agent gpuaas-app-alloc-01")
		api("DELETE", "/v1/allocations/alloc-01/release", "")
		green(t, node)
	})
	on(t, l, "compute-node-01", `systemctl stop gpuaas-node-agent
		setpriv --reuid tenant01 --regid tenant01 --clear-groups setsid nohup sleep 300 >/dev/null 2>&1 &`)
	api("POST", "/v1/allocations/alloc-01/release", `{"reason":"e2e","for_seconds":600}`)
	cleanup := func() (a string, is bool) {
		a = api("GET", "/v1/allocations/alloc-01", "")
		return a, strings.Contains(a, `"occupancy":"cleanup"`)
	}
	for began := time.Now(); time.Since(began) < settle; time.Sleep(100 * time.Millisecond) {
		if _, is := cleanup(); is {
			break
		}
	}
	time.Sleep(3 * time.Second)
	if a, is := cleanup(); !is {
		t.Errorf("the node is away: %s", a)
	}
	on(t, l, "compute-node-01", "pgrep -u tenant01 >/dev/null; systemctl start gpuaas-node-agent")
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		a := api("GET", "/v1/allocations/alloc-01", "")
		if strings.Contains(a, `"state":"released"`) {
			break
		}
		if time.Since(began) > settle {
			t.Fatalf("not released: %s", a)
		}
	}
	if left := on(t, l, "compute-node-01", "ps -o pid=,args= -u tenant01 || true"); strings.TrimSpace(left) != "" {
		t.Errorf("it is released, and the node runs %s", left)
	}
}

// TestLabDoors: a local program on the platform's machine can neither act as a node nor read terminal bindings.
func TestLabDoors(t *testing.T) {
	l := needLab(t)
	cert := urlEncoded(t, l)
	got := on(t, l, "platform", fmt.Sprintf(`setpriv --reuid nobody --clear-groups curl -s -m 5 -w ' %%{http_code}' `+
		`-H 'X-SSL-Client-Verify: SUCCESS' -H 'X-SSL-Client-Cert: %s' 'http://127.0.0.1:8081/internal/v1/nodes/%s/tasks/wait?timeout=0'`, cert, node))
	if !strings.Contains(got, "ingress_required") || !strings.HasSuffix(strings.TrimSpace(got), "403") {
		t.Errorf("as a node, without the ingress: %s", got)
	}
	for _, ask := range []string{"keys 'gpuaas:*'", "get gpuaas:x", "config get requirepass", "acl list", "flushall"} {
		if got := on(t, l, "platform", "redis-cli -h 127.0.0.1 "+ask+" 2>&1"); !strings.Contains(got, "NOPERM") {
			t.Errorf("redis %s: %s", ask, got)
		}
	}
	for _, file := range []string{"/etc/nginx/node-ingress.secret", "/etc/gpuaas-platform/ingress.secret",
		"/etc/gpuaas-platform/redis.password"} {
		if got := on(t, l, "platform", "setpriv --reuid nobody --clear-groups cat "+file+
			" 2>&1 || true"); !strings.Contains(got, "denied") {
			t.Errorf("anybody reads %s", file)
		}
	}
}

// urlEncoded returns the node's own certificate, as an ingress passes it on; the caller has no key for it.
func urlEncoded(t *testing.T, l *lab.Lab) string {
	t.Helper()
	pem := on(t, l, "compute-node-01", "cat /etc/gpuaas/cert.pem")
	return strings.NewReplacer("\n", "%0A", " ", "%20", "+", "%2B", "/", "%2F", "=", "%3D").Replace(pem)
}
