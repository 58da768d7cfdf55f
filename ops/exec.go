package ops

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpuaas/gpuaasctl/preflight/vantage"
)

// MostOutput is how many bytes a command on a node may print, on both of its streams together.
const MostOutput = 64 << 20

// Command is an operator's command for a node.
type Command struct {
	Argv    []string
	Stdin   io.Reader // nil: none
	Out     io.Writer
	Errors  io.Writer
	AsLogin bool // as the login user, even if walks become root
}

// EndedError is a command that ran on a node and failed.
type EndedError struct {
	Node   string
	Code   int
	Signal string // "KILL"; "" if no signal ended it
}

func (e *EndedError) Error() string {
	if e.Signal != "" {
		return fmt.Sprintf("the command on %s was ended by SIG%s", e.Node, e.Signal)
	}
	return fmt.Sprintf("the command on %s ended with exit code %d", e.Node, e.Code)
}

// Exec runs a command on the session's node over SSH, with host key verification and the profile's login, and passes on
// its output. It installs nothing on the node. An EndedError is the command's own failure; an UnreadError means that
// its result is unknown.
func (s *Session) Exec(ctx context.Context, c Command) error {
	if err := s.RequireHost(); err != nil {
		return err
	}
	cfg := s.nodeConfig()
	cfg.Bare = true
	if c.AsLogin {
		cfg.SSH.Sudo = new(bool)
	}
	node := vantage.NewNode(cfg)
	defer node.Close()
	exit, err := node.Stream(ctx, vantage.Command{
		Argv: c.Argv, Stdin: c.Stdin, Out: c.Out, Errors: c.Errors, Most: MostOutput,
	})
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, vantage.ErrTooMuch):
		return &UnreadError{fmt.Errorf("the command on %s was ended: it printed more than %d MiB", s.of.Node, MostOutput>>20)}
	case errors.Is(err, context.DeadlineExceeded):
		return &UnreadError{fmt.Errorf("the command on %s did not end within the deadline", s.of.Node)}
	case err != nil:
		return &UnreadError{err}
	case exit != vantage.Exit{}:
		return &EndedError{s.of.Node, exit.Code, exit.Signal}
	}
	return nil
}
