package queue

import "sync"

// wakeups wakes waiters by name. The zero value is ready to use.
type wakeups struct {
	mu sync.Mutex
	m  map[string]chan struct{} // closed at the next Wake; guarded by mu
}

// C returns a channel that is closed at the next Wake of name.
func (w *wakeups) C(name string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[string]chan struct{}{}
	}
	ch, ok := w.m[name]
	if !ok {
		ch = make(chan struct{})
		w.m[name] = ch
	}
	return ch
}

// Wake wakes all waiters for name.
func (w *wakeups) Wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch, ok := w.m[name]; ok {
		close(ch)
		delete(w.m, name)
	}
}
