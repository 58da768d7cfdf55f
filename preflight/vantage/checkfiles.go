package vantage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/owned"
	"github.com/gpuaas/gpuaasctl/preflight/vantage/openssh"
	"github.com/gpuaas/gpuaasctl/profile"
)

// CheckFiles refuses unusable SSH files of a profile: an identity without a private or public key, an existing
// known_hosts that cannot be read, and either if another user could have written it. A missing known_hosts is created
// with the first accepted key. The error names the profile's key.
func CheckFiles(s profile.SSH) error {
	local := openssh.This()
	// a token can only be expanded for a host
	unset := func(name string) bool {
		return name == "" || strings.Contains(name, "%") || strings.Contains(name, "${")
	}
	var errs []error
	if !unset(s.Identity) {
		file := local.Tilde(s.Identity)
		_, errKey := os.Stat(file)
		if _, errPub := os.Stat(file + ".pub"); errKey != nil && errPub != nil { // an agent may have the key of a .pub
			errs = append(errs, fmt.Errorf("ssh.identity: %w", errKey))
		}
		if err := checkOwner(file); err != nil {
			errs = append(errs, fmt.Errorf("ssh.identity: %w", err))
		}
	}
	if !unset(s.KnownHosts) {
		file := local.Tilde(s.KnownHosts)
		err := mayRead(file)
		if err == nil {
			err = checkOwner(file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("ssh.known_hosts: %w", err))
		}
	}
	return errors.Join(errs...)
}

// checkOwner refuses a file that another user could have written: its author would choose which host keys are accepted,
// which key logs in, or which program runs. A missing file, and one that is not regular, is not checked.
func checkOwner(file string) error {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := owned.Open(file, owned.Caller())
	if err != nil {
		return err
	}
	return f.Close()
}
