package terminal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaasctl/agent/wire"
	"github.com/gpuaas/gpuaasctl/internal/host"
)

// TestNoTerminalFor: logins that no tenant has, and accounts that are locked or expired, get no shell.
func TestNoTerminalFor(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	today := now.Unix() / 86400
	for name, c := range map[string]struct {
		uid    uint32
		shadow string // "": the host has no entry
		says   string // "": it may
	}{
		"root":                    {0, "u:*:1:0:9:7:::", "user id 0"},
		"a service":               {999, "u:*:1:0:9:7:::", "from 1000 on"},
		"a tenant":                {1000, "u:*:19000:0:99999:7:::", ""},
		"never had a password":    {1000, "u:!:19000:0:99999:7:::", ""},
		"never had one, Red Hat":  {1000, "u:!!:19000:0:99999:7:::", ""},
		"of a directory":          {1000, "", ""},
		"locked":                  {1000, "u:!$6$x$y:19000:0:99999:7:::", "is locked"},
		"locked without password": {1000, "u:!*:19000:0:99999:7:::", "is locked"},
		"expired by chage -E 0":   {1000, "u:*:19000:0:99999:7::0:", "expired on 1970-01-01"},
		"expires today":           {1000, fmt.Sprintf("u:*:19000:0:99999:7::%d:", today), "expired on 2026-11-22"},
		"expires tomorrow":        {1000, fmt.Sprintf("u:*:19000:0:99999:7::%d:", today+1), ""},
		"torn":                    {1000, "u:*", "shadow line of 2 fields"},
		"no date":                 {1000, "u:*:19000:0:99999:7::soon:", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			text := "#!/bin/sh\nexit 2\n"
			if c.shadow != "" {
				text = "#!/bin/sh\n[ \"$1 $2 $3\" = 'shadow -- u' ] && echo '" + c.shadow + "'\n"
			}
			if err := os.WriteFile(filepath.Join(bin, "getent"), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			err := mayLogIn(t.Context(), user{User: host.User{Name: "u", UID: c.uid}}, 1000, now)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != wire.CodeUserRefused || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestRefusedLoginGetsAnError: the refusal reaches the far end of the stream with its code, and no shell was
// started.
func TestRefusedLoginGetsAnError(t *testing.T) {
	o := newGateway(t).options(t)
	o.MinUID = uint32(os.Geteuid()) + 1 // of the test's own login
	_, err := Open(t.Context(), o)
	var e *Error
	if !errors.As(err, &e) || e.Code != wire.CodeUserRefused {
		t.Errorf("%v", err)
	}
}
