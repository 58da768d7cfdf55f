package ops

import "fmt"

// InputError is a mistake in what was asked for, or in the configuration. Nothing was sent.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

func asInput(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{err}
}

// NoHostError is a node of which it is not known where it is reached.
type NoHostError struct {
	Node    string
	Profile string // as it was chosen
	Others  string // nodes of the profile with a name like this, for a message
}

func (e *NoHostError) Error() string {
	return fmt.Sprintf("no SSH host is known for %s", e.Node)
}

// UnknownNodeError is a node that the platform does not know, and of which nothing else is known either.
type UnknownNodeError struct {
	Node, Platform string
	Others         string // nodes of the profile, for a message
}

func (e *UnknownNodeError) Error() string {
	return fmt.Sprintf("the platform at %s knows no node %s (HTTP 404)", e.Platform, e.Node)
}

// UnreadError is a node, or a part of it, of which nothing could be read: nothing was refused, and nothing was found.
type UnreadError struct{ Err error }

func (e *UnreadError) Error() string { return e.Err.Error() }
func (e *UnreadError) Unwrap() error { return e.Err }
