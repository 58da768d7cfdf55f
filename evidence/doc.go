// Package evidence joins what many sources recorded about a node into one history, and packs it, with everything
// that it was made from, into one archive that proves its own contents.
//
// It is pure: facts, log lines and answers come in, events and bytes go out. It reads no network, no clock and no
// environment, and it takes nothing out of a text: what comes in was scrubbed where it was read. Callers are the
// commands diag bundle, diag timeline and diag export.
package evidence
