package logfile

import (
	"strconv"
	"strings"
	"testing"
)

// BenchmarkRead reads logs without and with the driver's lines.
func BenchmarkRead(b *testing.B) {
	for name, line := range map[string]string{
		"syslog":   "Apr 20 10:00:00 gpu-7 kernel: [1000.000001] mlx5_core 0000:ab:00.0 mlx5_1: Port: 1 Link ACTIVE ",
		"dmesg":    "[ 1000.000001] mlx5_core 0000:ab:00.0 mlx5_1: Port: 1 Link ACTIVE ",
		"no log":   "hello world, this is no line of a log at all, number ",
		"journal":  `{"_BOOT_ID":"0123456789abcdef0123456789abcdef","_TRANSPORT":"kernel","MESSAGE":"Link ACTIVE"}`,
		"XID":      "[ 1000.000001] NVRM: Xid (PCI:0000:3b:00): 13, pid=7, name=x, Graphics Exception ",
		"XID JSON": `{"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 13, pid=7, name=x"}`,
	} {
		var text strings.Builder
		for i := range 20_000 {
			text.WriteString(strings.Replace(line, "name=x", "name="+strconv.Itoa(i%100), 1) + "\n")
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				if _, err := Read(strings.NewReader(text.String())); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
