package drill

import (
	"context"
	"time"
)

// interrupts holds the operator's interrupts as contexts.
type interrupts struct {
	asked   context.Context // ends at an interrupt: no further fault, no further walk
	patient context.Context // ends restTime later: machines that do not respond are given up
	life    context.Context // ends when the operator abandons the run, as do the others: nothing more is done
	stop    func()
}

// watchInterrupts records an interrupt by the operator as soon as it arrives.
func (r *runner) watchInterrupts(ctx context.Context) interrupts {
	life, abandon := context.WithCancel(context.WithoutCancel(ctx))
	patient, giveUp := context.WithCancel(life)
	asked, interrupt := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	watch := func() {
		var rest <-chan time.Time
		interrupted := ctx.Done()
		note := func(text string) {
			if interrupted != nil {
				interrupted = nil
				r.record(Event{Kind: Interrupt, Text: text})
				interrupt()
			}
		}
		for {
			select {
			case <-interrupted:
				note("interrupted by the operator")
				rest = time.After(restTime)
				continue
			case <-rest:
				rest = nil
				giveUp()
				continue
			case <-r.Abandon:
				note("abandoned by the operator")
				abandon()
			case <-over:
				if ctx.Err() != nil {
					note("interrupted by the operator")
				}
			}
			return
		}
	}
	go func() {
		defer close(done)
		watch()
	}()
	return interrupts{asked, patient, life, func() {
		close(over)
		<-done
		interrupt()
		giveUp()
		abandon()
	}}
}
