//go:build !linux

package recorder

import "errors"

var errLinuxOnly = errors.New("only on Linux")

// hostFS keeps nothing: there is no node but on Linux.
type hostFS struct{}

func (hostFS) Open(string) (File, error)     { return nil, errLinuxOnly }
func (hostFS) OpenRead(string) (File, error) { return nil, errLinuxOnly }
func (hostFS) MakeDir(string) error          { return errLinuxOnly }
func (hostFS) SyncDir(string) error          { return errLinuxOnly }
func (hostFS) Remove(string) error           { return errLinuxOnly }
func (hostFS) Kind(string) (string, error)   { return "", errLinuxOnly }

func (hostFS) FreeInodes(string) (int64, error) { return -1, errLinuxOnly }

func boottime() int64 { return 0 }
