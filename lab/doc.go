// Package lab sets up a small environment of real machines on one Linux host: a platform machine and a few nodes,
// each a systemd-nspawn container with its own systemd, sshd, journal, disk of limited size and boot id, on a
// private network. It is the product's demo, its end-to-end test bed, and a training ground.
//
// It needs root, and changes nothing on the host that Down does not remove: no DNS, no hosts file, no NAT. It has
// no notion of hops or drills; its callers are `gpuaasctl lab` and tests.
//
// The host's state (a mount, a namespace, a running machine) is always inspected and never remembered: Up gets
// from any state, including that of a killed Up, to the wanted one.
package lab
