// Package labcmd is "gpuaasctl lab": machines on this host to practise on.
package labcmd
