package host

import (
	"strconv"
	"strings"
)

// Unit has properties of a systemd unit by systemd's own names. A property that is listed several times has a value per
// line.
type Unit map[string]string

// ShowUnits returns the command that asks systemd for properties, joined by commas, of units. systemctl succeeds for a
// unit that does not exist; its LoadState shows that.
func ShowUnits(properties string, units ...string) []string {
	return append([]string{"systemctl", "show", "--no-pager", "--property=" + properties, "--"}, units...)
}

// ParseUnits parses the output of ShowUnits's command, in the order of its units.
func ParseUnits(answer string) []Unit {
	var all []Unit
	for block := range strings.SplitSeq(strings.TrimSpace(answer), "\n\n") {
		u := Unit{}
		for line := range strings.Lines(block) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok {
				continue
			}
			if old, again := u[name]; again {
				value = old + "\n" + value
			}
			u[name] = value
		}
		all = append(all, u)
	}
	return all
}

// Number returns a numeric property; false if the value is not a number.
func (u Unit) Number(name string) (int64, bool) {
	n, err := strconv.ParseInt(u[name], 10, 64)
	return n, err == nil
}

// PID returns the unit's main process; 0 if it has none.
func (u Unit) PID() int {
	n, _ := u.Number("MainPID")
	return int(n)
}
