// Package logtest keeps the output of programs and goroutines under test, for tests that read it meanwhile. Only tests
// import it.
package logtest

import (
	"bytes"
	"sync"
)

// Log is an io.Writer for any number of goroutines.
type Log struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
