package drill

import (
	"context"
	"time"
)

// interrupts is what the operator wants, as contexts.
type interrupts struct {
	asked   context.Context // ends when he interrupts the run: nothing more is broken, and no more walks are made
	patient context.Context // ends restTime after that: machines are given up
	life    context.Context // ends when he abandons the run, as the others do: nothing more is done
	stop    func()
}

// watchInterrupts reports when the operator interrupts the run, as soon as he does.
func (r *runner) watchInterrupts(ctx context.Context) interrupts {
	life, abandon := context.WithCancel(context.WithoutCancel(ctx))
	patient, giveUp := context.WithCancel(life)
	asked, interrupt := context.WithCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	watch := func() {
		var rest <-chan time.Time
		interrupted := ctx.Done()
		heard := func(text string) {
			if interrupted != nil {
				interrupted = nil
				r.tell(Event{Kind: Interrupt, Text: text})
				interrupt()
			}
		}
		for {
			select {
			case <-interrupted:
				heard("interrupted by the operator")
				rest = time.After(restTime)
				continue
			case <-rest:
				rest = nil
				giveUp()
				continue
			case <-r.Abandon:
				heard("abandoned by the operator")
				abandon()
			case <-over:
				if ctx.Err() != nil {
					heard("interrupted by the operator")
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
