//go:build linux

package node

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaasctl/chaos/step"
)

// lease is one block on the disk, written in place: when somebody last said that the drill is wanted. It need not outlive
// a crash of the machine, which ends the drill anyway, so it is not synced. One that cannot be read was never renewed.
type lease struct {
	path string
	boot string
}

func (l lease) sum(text string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}

func (l lease) renew(now int64) error {
	text := fmt.Sprintf("gpuaas-lease 1 boot=%s ns=%d", l.boot, now)
	b := bytes.Repeat([]byte{' '}, step.BlockSize)
	copy(b, text+" "+l.sum(text))
	b[len(b)-1] = '\n'
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return err
}

// Renewed is Lease's.
func (l lease) Renewed() int64 {
	b, err := os.ReadFile(l.path)
	if err != nil {
		return 0
	}
	line := strings.TrimSpace(string(b))
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || l.sum(line[:i]) != line[i+1:] {
		return 0
	}
	_, text, ok := strings.Cut(line[:i], "boot="+l.boot+" ns=")
	ns, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return ns
}
