package vantage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Remove deletes pushed helpers from the node: it ends ours first, then removes their folders and the tmpfs, unless
// that contains anything else. Without Remove, a helper stays for later walks until the next boot, which discards the
// tmpfs. Afterwards the vantage can only be closed.
func (n *Node) Remove(ctx context.Context) error {
	l := n.connect()
	if l == nil {
		return errors.New("removing pushed helpers: the vantage is closed")
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		return fmt.Errorf("removing pushed helpers: %w", l.pending(ctx))
	}
	if r := l.refusal(); r != nil {
		return fmt.Errorf("removing pushed helpers: %w", r)
	}
	l.gate.fail(&refusal{word: "cancelled", phase: phaseSSH, detail: "the helper was ended for its removal"})
	l.mu.Lock()
	client, s := l.conn, l.session
	l.mu.Unlock()
	s.end()
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	sudo := l.wantSudo() && l.hello.UID == 0
	got, err := l.ask(ctx, client, command(removeScript, sudo))
	switch {
	case err != nil:
		return fmt.Errorf("removing pushed helpers: %w", err)
	case got.word != "removed":
		return fmt.Errorf("removing pushed helpers: %s", got.text)
	}
	return nil
}

// RemovalTime is how long a caller of Remove should wait.
const RemovalTime = removeTimeout + time.Second

// removeTimeout bounds the removal: a few system calls, after the helper has ended.
const removeTimeout = 5 * time.Second
