//go:build linux

package ptmx

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaasctl/tools/testkit/tier"
)

func open(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, tty, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = master.Close(), tty.Close() })
	return master, tty
}

func TestSizeAndEcho(t *testing.T) {
	master, tty := open(t)
	if err := Resize(master, 132, 43); err != nil {
		t.Fatal(err)
	}
	if size, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ); err != nil || size.Col != 132 || size.Row != 43 {
		t.Errorf("size %+v, %v", size, err)
	}
	said := func(within time.Duration) []byte {
		if _, err := master.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
		if err := master.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 64)
		n, err := master.Read(buf)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return buf[:n]
	}
	if got := said(30 * time.Second); !bytes.Contains(got, []byte("hello")) {
		t.Errorf("a terminal echoes, and this one said %q", got)
	}
}

// TestClosingEndsARead: even after every other operation on the file.
func TestClosingEndsARead(t *testing.T) {
	tier.NeedsHost(t)
	master, _ := open(t)
	if err := Resize(master, 80, 24); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := master.Read(make([]byte, 1))
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := master.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it read something")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the read goes on")
	}
}
