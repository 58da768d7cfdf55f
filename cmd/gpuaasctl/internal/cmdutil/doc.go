// Package cmdutil is what gpuaasctl's commands share: the process's streams and environment, the voice beside
// documents, formats and tables, how an error becomes an exit code, and the flags that choose a profile and a node. It
// has no command of its own. Its callers are the packages of internal/cmd and the root.
package cmdutil
