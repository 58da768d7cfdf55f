package profile

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is when drills may begin: days of the week, and hours of a day.
type Window struct {
	days     [7]bool
	from, to int // minutes of the day
	zone     *time.Location
}

var dayNames = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseWindow parses "Mon-Fri 08:00-17:00 UTC". Days are one day, a range, or several of these separated by commas; the
// zone may be omitted, and is then UTC. The hours must not cross midnight: two windows express that more clearly.
func ParseWindow(text string) (Window, error) {
	bad := fmt.Errorf("%q: want days, hours and a zone, as in Mon-Fri 08:00-17:00 UTC", text)
	words := strings.Fields(text)
	if len(words) == 2 {
		words = append(words, "UTC")
	}
	if len(words) != 3 {
		return Window{}, bad
	}
	w := Window{}
	var err error
	if w.zone, err = time.LoadLocation(words[2]); err != nil || words[2] == "Local" {
		return Window{}, fmt.Errorf("%q: no zone %q", text, words[2])
	}
	for part := range strings.SplitSeq(words[0], ",") {
		first, last, span := strings.Cut(part, "-")
		if !span {
			last = first
		}
		a, b := slices.Index(dayNames[:], strings.ToLower(first)), slices.Index(dayNames[:], strings.ToLower(last))
		if a < 0 || b < 0 {
			return Window{}, bad
		}
		for d := a; ; d = (d + 1) % 7 {
			w.days[d] = true
			if d == b {
				break
			}
		}
	}
	from, to, ok := strings.Cut(words[1], "-")
	start, err1 := time.Parse("15:04", from)
	end, err2 := time.Parse("15:04", to)
	if w.from, w.to = start.Hour()*60+start.Minute(), end.Hour()*60+end.Minute(); !ok || err1 != nil || err2 != nil ||
		w.from >= w.to {
		return Window{}, bad
	}
	return w, nil
}

// Open reports whether a drill that takes so long may begin at now: it must end before the window does.
func (w Window) Open(now time.Time, takes time.Duration) bool {
	begin := now.In(w.zone)
	end := begin.Add(takes)
	minute := func(t time.Time) int { return t.Hour()*60 + t.Minute() }
	return w.days[begin.Weekday()] && begin.YearDay() == end.YearDay() && minute(begin) >= w.from && minute(end) < w.to
}
