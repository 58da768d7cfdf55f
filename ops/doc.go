// Package ops is what the tool does, independent of how it is called or displayed. A Site is an environment as an
// operator knows it, a Session is one run about one of its nodes, and every command is a method that takes options and
// returns a document.
//
// It knows no flags, no terminal and no format: options are values, progress is events, and an error that a caller
// acts on has a type. Documents hold commands to paste, as the steps of a report do. Any number of
// sessions may run at once. Callers are cmd/gpuaasctl, and programs that walk many nodes.
//
// More than 25 files: each verb has its own.
package ops
