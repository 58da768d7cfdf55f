package vantage

import "time"

// clockOffset is the best estimate so far of the node's clock minus ours. Not safe for concurrent use.
type clockOffset struct {
	known  bool
	offset time.Duration
	err    time.Duration // half the round trip
}

// sample is the estimate from one exchange: the remote clock was read as now, between our sent and received.
func sample(now, sent, received time.Time) clockOffset {
	half := received.Sub(sent) / 2
	return clockOffset{known: true, offset: now.Round(0).Sub(sent.Add(half).Round(0)), err: half}
}

// add keeps the more precise of two estimates.
func (c *clockOffset) add(now, sent, received time.Time) {
	if s := sample(now, sent, received); !c.known || s.err < c.err {
		*c = s
	}
}

// millis returns offset and uncertainty in milliseconds, the latter rounded up, at least 1.
func (c *clockOffset) millis() (offset, uncertain int64) {
	return c.offset.Round(time.Millisecond).Milliseconds(), int64((c.err + time.Millisecond - 1) / time.Millisecond)
}
