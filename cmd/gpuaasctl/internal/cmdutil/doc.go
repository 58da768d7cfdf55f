// Package cmdutil is what gpuaasctl's commands share: the process's streams and environment, messages on stderr,
// formats and tables, the conversion of errors to exit codes, and the flags that choose a profile and a node. It has no
// command itself. Its callers are the packages of internal/cmd and the root.
package cmdutil
