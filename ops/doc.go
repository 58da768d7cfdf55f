// Package ops is what the tool does, without how it is asked for or shown: a Site is an environment as an operator
// knows it, a Session is one run about one of its nodes, and every verb is a method that takes options and returns a
// document.
//
// It knows no command line, no terminal and no format: options come in as values, progress goes out as events, what
// went wrong is a typed error. Any number of sessions may run at once. Callers are cmd/gpuaasctl, and whatever walks
// many nodes.
//
// More than 25 files: each verb has its own.
package ops
