package profile

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	friday := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]bool{
		"Mon-Fri 08:00-17:00 UTC": true, "Fri 11:00-13:00": true, "sat,fri 12:00-12:30 UTC": true,
		"Thu-Sat 00:00-23:59": true, "Mon-Thu 08:00-17:00 UTC": false, "Fri 12:01-13:00 UTC": false,
		"Fri 08:00-12:01 UTC": false, "Sat-Mon 08:00-17:00": false,
	} {
		w, err := ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Open(friday, 150*time.Second); got != want {
			t.Errorf("%s at %s: open %v", text, friday.Format("Mon 15:04"), got)
		}
	}
	for _, text := range []string{"", "always", "Fri", "Fri 17:00-08:00", "Fri 8-17", "Xyz 08:00-17:00",
		"Fri 08:00-17:00 Nowhere/At", "Fri 08:00-17:00 Local"} {
		if _, err := ParseWindow(text); err == nil {
			t.Errorf("%q is a window", text)
		}
	}
}
