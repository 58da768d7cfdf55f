// Package evidence joins what several sources recorded about a node into one history, and packs it together with its
// inputs into one archive that verifies its own contents.
//
// It is pure: facts, log lines and answers come in, events and bytes go out. It uses no network, no clock and no
// environment. It redacts nothing: its input was scrubbed where it was read. Callers are the commands diag bundle, diag
// timeline and diag export.
package evidence
