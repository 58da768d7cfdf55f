package ops

import "fmt"

// InputError is a mistake in the request or in the configuration. Nothing was sent.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

func asInput(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{err}
}

// NoHostError means that the address of a node is unknown.
type NoHostError struct {
	Node    string
	Profile string // as it was chosen
	Others  string // nodes of the profile with similar names, for a message
}

func (e *NoHostError) Error() string {
	return fmt.Sprintf("no SSH host is known for %s", e.Node)
}

// UnknownNodeError means that neither the platform nor the profile knows the node.
type UnknownNodeError struct {
	Node, Platform string
	Others         string // nodes of the profile, for a message
}

func (e *UnknownNodeError) Error() string {
	return fmt.Sprintf("the platform at %s knows no node %s (HTTP 404)", e.Platform, e.Node)
}

// UnreadError means that nothing could be read of a node or of a part of it: nothing was refused, and nothing was
// found.
type UnreadError struct{ Err error }

func (e *UnreadError) Error() string { return e.Err.Error() }
func (e *UnreadError) Unwrap() error { return e.Err }
