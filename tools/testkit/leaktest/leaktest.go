// Package leaktest finds goroutines that a test has left running. It is goleak with a longer timeout for busy machines:
// goleak itself waits half a second for a goroutine to end. It is for tests only.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end.
const patience = 30 * time.Second

// None fails the test if there are goroutines that do not end.
func None(t testing.TB, but ...goleak.Option) {
	t.Helper()
	if err := left(but...); err != nil {
		t.Error(err)
	}
}

// Main is goleak.VerifyTestMain: the tests of a package leave no goroutines behind.
func Main(m *testing.M, options ...goleak.Option) { goleak.VerifyTestMain(waits{m}, options...) }

// waits runs tests and waits for their goroutines to end. Goleak finds the rest.
type waits struct{ m *testing.M }

func (w waits) Run() int {
	code := w.m.Run()
	if code == 0 {
		_ = left()
	}
	return code
}

func left(but ...goleak.Option) (err error) {
	for end := time.Now().Add(patience); ; {
		if err = goleak.Find(but...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
