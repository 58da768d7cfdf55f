package host

import (
	"testing"
)

// TestUnitOf: units of a user's own manager count as that manager's.
func TestUnitOf(t *testing.T) {
	for path, want := range map[string]string{
		"/system.slice/nginx.service":                                           "nginx.service",
		"/system.slice/docker-0a1b.scope/sub":                                   "docker-0a1b.scope",
		"/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service": "user@1000.service",
		"/user.slice": "",
	} {
		if got := unitIn(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
