package command

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/host"
)

// sweepPause is between two looks at what is left.
const sweepPause = 2 * time.Millisecond

// sweep ends what the program left behind, and returns how many processes that were, and how many did not end. Every
// descendant is found: an orphan becomes a child of this process.
func (k *keeper) sweep() (left, unended int) {
	killed := map[int]bool{}
	until := time.Now().Add(endPatience)
	for {
		alive := descendants(os.Getpid())
		for _, pid := range alive { // none of them can start another one while the others are killed
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range alive {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			if killed[pid] = true; pid == k.main {
				delete(killed, pid)
			}
		}
		select {
		case <-k.done:
			return len(killed), 0
		case <-time.After(sweepPause):
		}
		if time.Now().After(until) {
			return len(killed), len(descendants(os.Getpid()))
		}
	}
}

// descendants lists the processes below a process that have not ended.
func descendants(of int) []int {
	parents, ended := map[int]int{}, map[int]bool{}
	pids, _ := host.This.PIDs(-1) // what can be listed
	for _, pid := range pids {
		text, err := host.Read(host.This.Path(pid, "stat"), host.Small)
		if err != nil {
			continue
		}
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		ended[pid] = fields[0] == "Z" || fields[0] == "X"
	}
	var below []int
	for pid := range parents {
		for up, steps := pid, 0; up > 1 && steps < len(parents); up, steps = parents[up], steps+1 {
			if up == of {
				if pid != of && !ended[pid] {
					below = append(below, pid)
				}
				break
			}
		}
	}
	return below
}

// tasksOf counts the threads of a user, which the kernel's limit counts.
func tasksOf(uid uint32) (n int) {
	pids, _ := host.This.PIDs(-1) // what can be listed
	for _, pid := range pids {
		st, err := host.This.Status(pid)
		if err != nil {
			continue
		}
		if ids, ok := st.UIDs(); ok && ids[0] == uid {
			n += int(st.Number("Threads"))
		}
	}
	return n
}
