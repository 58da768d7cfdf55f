package vantage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Remove takes pushed helpers off the node: ours ends first, then their folders and the tmpfs are removed, unless
// something else lies there. A helper may also stay for later walks: the tmpfs is gone with the next boot. The vantage
// can only be closed afterwards.
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

// removeTimeout bounds the removal: a handful of system calls, and the helper's own end before them.
const removeTimeout = 5 * time.Second
