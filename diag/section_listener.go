package diag

import "fmt"

// Listener is a process that listens on a port.
type Listener struct {
	Name string `json:"name"`           // its own name for itself
	PID  int    `json:"pid"`            // on its machine
	Unit string `json:"unit,omitempty"` // its systemd unit, by its control group
}

// String returns the process as text, "" for none.
func (l *Listener) String() string {
	switch {
	case l == nil:
		return ""
	case l.Unit == "":
		return fmt.Sprintf("%s (pid %d)", l.Name, l.PID)
	}
	return fmt.Sprintf("%s (pid %d, %s)", l.Name, l.PID, l.Unit)
}
