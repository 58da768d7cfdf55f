package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// readsAll are the capabilities with which a process reads files of other users.
const readsAll = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

// deniedTo returns the first of files that a process may not read because of its user, and that user; "" if it may read
// all, or if this is not known. The kernel decides it, on a thread with that user's ids: modes show no access lists.
func deniedTo(pid int, files ...string) (denied string, uid uint32) {
	s, err := host.This.Status(pid)
	uids, ok := s.UIDs()
	caps, errCaps := strconv.ParseUint(s.Value("CapEff"), 16, 64)
	gids, groups := idsOf(s.Value("Gid")), idsOf(s.Value("Groups"))
	uid = uids[3]
	if err != nil || errCaps != nil || !ok || uid == 0 || len(gids) != 4 || caps&readsAll != 0 || os.Geteuid() != 0 {
		return "", 0
	}
	done := make(chan struct{})
	go OnSpareThread(func() { // it ends with its ids
		defer close(done)
		if !becomes(uid, gids[3], groups) {
			return
		}
		for _, name := range files {
			fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			switch {
			case err == nil:
				_ = unix.Close(fd)
			case errors.Is(err, os.ErrPermission):
				denied = name
				return
			}
		}
	})
	<-done
	if denied == "" {
		uid = 0
	}
	return denied, uid
}

// becomes gives this thread, and no other of the process, a user's rights to files, and reports whether it has them.
func becomes(uid, gid uint32, groups []uint32) bool {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)),
		uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if e != 0 || unix.Setfsgid(int(gid)) != nil || unix.Setfsuid(int(uid)) != nil {
		return false
	}
	now, err := unix.SetfsuidRetUid(-1)
	return err == nil && now == int(uid)
}

func idsOf(text string) (ids []uint32) {
	for field := range strings.FieldsSeq(text) {
		if id, err := strconv.ParseUint(field, 10, 32); err == nil {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}
