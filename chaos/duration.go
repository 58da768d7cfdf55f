package chaos

import (
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// Duration is a time span as people write it, always with its unit: "90s", "2m", "1m30s". A bare number is refused, since
// nobody can tell what it counts.
type Duration time.Duration

// Std is d as Go has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the shortest spelling that reads back as d: "90s", "2m", "500ms".
func (d Duration) String() string {
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if whole := time.Duration(d); whole != 0 && whole%u.unit == 0 {
			return strconv.FormatInt(int64(whole/u.unit), 10) + u.name
		}
	}
	return time.Duration(d).String()
}

// MarshalText writes it as String does, in JSON as in YAML.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(text []byte) error {
	std, err := time.ParseDuration(string(text))
	if err == nil && string(text) == "0" { // the one number that Go takes without a unit
		err = strconv.ErrSyntax
	}
	if err != nil {
		return fmt.Errorf("want a duration with its unit (30s, 2m), not %q", text)
	}
	*d = Duration(std)
	return nil
}

// UnmarshalYAML reads it, and says the line where it cannot.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return lineError(n, "want a duration with its unit (30s, 2m)")
	}
	if err := d.UnmarshalText([]byte(n.Value)); err != nil {
		return lineError(n, err.Error())
	}
	return nil
}

// lineError is an error that the decoder collects with the others instead of ending at it.
func lineError(n *yaml.Node, message string) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %s", n.Line, message)}}
}
