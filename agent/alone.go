package agent

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// fileAlone is held by the one agent of a node; its text is that process's id.
const fileAlone = "agent.lock"

// Alone waits until this process is the only agent of its node, or until ctx is done, whose error it returns. Budget,
// journal and record have one writer: a second agent would enroll beside them, and one that hangs may still write. Where
// no lock can be kept nothing is waited for: a node whose disk takes nothing has an agent all the same.
func Alone(ctx context.Context, cfg Config) (release func(), err error) {
	cfg = cfg.withDefaults()
	dir := cmp.Or(cfg.MirrorDir, cfg.StateDir)
	_ = os.MkdirAll(dir, 0o755) // the next says why not
	f, err := os.OpenFile(filepath.Join(dir, fileAlone), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		cfg.Log.Warn("whether another agent runs is not known", "error", scrubbed(err))
		return func() {}, nil
	}
	said := false
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == syscall.EWOULDBLOCK {
		if !said {
			said = true
			cfg.Log.Warn("another agent runs on this node; waiting for its end", "pid", firstLine(f.Name()))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // only told to who waits
	}
	return func() { _ = f.Close() }, nil
}
