package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// Coverage is which part of a source was read: without it, the absence of events may mean that the source was not read.
type Coverage struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	BootID string    `json:"boot_id,omitempty"`
	Blind  string    `json:"blind,omitempty"` // why nothing is read now
	Gaps   []Gap     `json:"gaps,omitempty"`
	Lost   uint64    `json:"lost,omitempty"` // records that were not read, as far as they were counted
}

// Gap is a part that was not read. Without an end it extends to the end of its boot.
type Gap struct {
	Cause string     `json:"cause"`
	From  time.Time  `json:"from"`
	To    *time.Time `json:"to,omitempty"`
	Lost  uint64     `json:"lost,omitempty"`
}

// Dropped counts events that the node did not report, by type, since the previous such event.
type Dropped struct {
	Since time.Time           `json:"since"`
	Count map[EventType]int64 `json:"count"`
	Why   string              `json:"why"` // "rate" | "size" | "unsent"
}

func (c *Coverage) check() error {
	if !bounded.Plausible(c.From) || !bounded.Plausible(c.To) || c.To.Before(c.From) {
		return errors.New("its coverage ends before it begins, or has a time that no clock shows")
	}
	return bounded.Times(c.Gaps)
}

func (d *Dropped) check() error {
	if !bounded.Plausible(d.Since) || len(d.Count) == 0 || d.Why == "" {
		return errors.New("it does not name what was dropped, and since when")
	}
	for t, n := range d.Count {
		if n < 1 || n > MaxCount {
			return fmt.Errorf("%d events of type %.20q were dropped", n, t)
		}
	}
	return nil
}
