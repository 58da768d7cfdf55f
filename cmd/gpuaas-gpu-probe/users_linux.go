//go:build linux && cgo

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaasctl/gpu/report"
	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Bounds of the files that describe a process and its user.
const (
	maxStatus = 4 << 10
	maxPasswd = 1 << 20
	maxUser   = 32 // bytes of a user's name
)

// users names processes and their users by the kernel's and the node's own files. A process chooses only its name,
// which the kernel quotes and shortens; no file that a process owns is opened.
type users struct {
	root  string // of the files; "" for the system's
	names map[int]string
	read  time.Time
}

// describe fills in the name and the user of a process that is still there.
func (u *users) describe(p *report.Process) {
	status := content(filepath.Join(u.root+"/proc", strconv.Itoa(p.PID), "status"), maxStatus)
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch key {
		case "Name":
			p.Name = printable(value)
		case "Uid": // real, effective, saved and of the file system
			_, effective, _ := strings.Cut(value, "\t")
			effective, _, _ = strings.Cut(effective, "\t")
			if uid, err := strconv.ParseUint(effective, 10, 31); err == nil {
				p.UID = new(int(uid))
				p.User = u.name(*p.UID)
			}
			return // Name comes first
		}
	}
}

// name returns the name of a user of this node; "" if its own list does not have one. Users of a directory service
// have none: asking it may take long.
func (u *users) name(uid int) string {
	if u.names == nil || time.Since(u.read) >= rareEvery {
		u.names, u.read = map[int]string{}, time.Now()
		for line := range strings.Lines(content(u.root+"/etc/passwd", maxPasswd)) {
			fields := strings.Split(line, ":")
			if len(fields) < 3 || len(fields[0]) > maxUser {
				continue
			}
			n, err := strconv.Atoi(fields[2])
			if _, had := u.names[n]; err == nil && !had { // as the system does, the first
				u.names[n] = printable(fields[0])
			}
		}
	}
	return u.names[uid]
}

// content returns a short file; "" if it is longer or cannot be read.
func content(path string, most int) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // it was read only
	text, err := bounded.Read(f, most)
	if err != nil {
		return ""
	}
	return string(text)
}

// printable replaces what a terminal would not show as a character.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) || r == '\ufffd' {
			return '?'
		}
		return r
	}, s)
}
