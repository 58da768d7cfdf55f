package diag

import "fmt"

// PathFacts is the way of packets to a target: the interface that they leave by, and each address of its name.
type PathFacts struct {
	Interface string `json:"interface,omitempty"`
	MTU       int    `json:"mtu,omitempty"`
	SpeedMbps *int   `json:"speed_mbps,omitempty"` // absent for what has no speed, such as a virtual link
	Duplex    string `json:"duplex,omitempty"`
	// the path's MTU as the kernel knows it for this connection, and the size of segment that the peer takes
	PathMTU int `json:"path_mtu,omitempty"`
	MSS     int `json:"mss,omitempty"`

	Since *LinkCounters `json:"since_boot,omitempty"` // of the interface, when the probe ended
	While *LinkCounters `json:"while,omitempty"`      // how far they rose during the probe

	// every address of the name, each dialled once; absent for a name with one address
	Addresses []TCPAttempt `json:"addresses,omitempty"`
	More      int          `json:"more,omitempty"` // addresses beyond MaxAttempts, which were not dialled
}

// LinkCounters are the counters of an interface.
type LinkCounters struct {
	Packets        int64 `json:"packets"` // received and sent
	Errors         int64 `json:"errors"`  // received and sent
	Dropped        int64 `json:"dropped"` // received and sent, as for lack of buffers
	CarrierChanges int64 `json:"carrier_changes"`
}

// Words has the interface, and each address.
func (p *PathFacts) Words() []Line {
	speed, rose := "", ""
	if p.SpeedMbps != nil {
		speed = fmt.Sprintf("%d Mbit/s", *p.SpeedMbps)
	}
	if w := p.While; w != nil && (w.Errors > 0 || w.Dropped > 0 || w.CarrierChanges > 0) {
		rose = fmt.Sprintf("%d errors, %d dropped, %d carrier changes while it was measured", w.Errors, w.Dropped,
			w.CarrierChanges)
	}
	lines := []Line{line("path", pair("by ", p.Interface), pair("MTU ", number(p.MTU)), speed, p.Duplex,
		pair("path MTU ", number(p.PathMTU)), pair("segments of ", number(p.MSS)), rose)}
	for i := range p.Addresses {
		a := &p.Addresses[i]
		state := string(a.Failure)
		if a.Connected {
			state = "connects"
		}
		lines = append(lines, line("  address", a.Remote, state, took(a.DurationMS)))
	}
	return lines
}

// Properties has the interface and its settings.
func (p *PathFacts) Properties(*Fact) []Property {
	speed := ""
	if p.SpeedMbps != nil {
		speed = fmt.Sprint(*p.SpeedMbps)
	}
	return []Property{
		{ChangeLink, "path.interface", p.Interface},
		{ChangeLink, "path.mtu", number(p.MTU)},
		{ChangeLink, "path.speed_mbps", speed},
	}
}
