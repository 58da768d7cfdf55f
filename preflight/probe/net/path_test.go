package net

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaasctl/diag"
)

// TestLink: an interface has the settings and counters that the kernel gives it, and no others.
func TestLink(t *testing.T) {
	sys := t.TempDir()
	for file, text := range map[string]string{
		"eth0/mtu": "9000\n", "eth0/speed": "25000\n", "eth0/duplex": "full\n", "eth0/carrier_changes": "3\n",
		"eth0/statistics/rx_packets": "10\n", "eth0/statistics/tx_packets": "5\n", "eth0/statistics/rx_errors": "2\n",
		"eth0/statistics/tx_errors": "1\n", "eth0/statistics/tx_dropped": "4\n",
		"lo/mtu": "65536\n", "veth1/mtu": "1500\n", "veth1/speed": "-1\n", "veth1/duplex": "full\n",
	} {
		path := filepath.Join(sys, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := diag.PathFacts{Interface: "eth0"}
	describeLink(sys, &p)
	if p.MTU != 9000 || *p.SpeedMbps != 25000 || p.Duplex != "full" {
		t.Errorf("%+v", p)
	}
	if c := countersOf(sys, "eth0"); *c != (diag.LinkCounters{Packets: 15, Errors: 3, Dropped: 4, CarrierChanges: 3}) {
		t.Errorf("%+v", c)
	}
	p = diag.PathFacts{Interface: "veth1"}
	describeLink(sys, &p)
	if p.MTU != 1500 || p.SpeedMbps != nil || p.Duplex != "" {
		t.Errorf("%+v", p)
	}
	if countersOf(sys, "lo") != nil || countersOf(sys, "../eth0") != nil || countersOf(sys, "") != nil {
		t.Error("counters of what has none")
	}
}
