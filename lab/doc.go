// Package lab raises a small environment of real machines on one Linux host: a platform machine and a few nodes, each
// a systemd-nspawn container with its own systemd, sshd, journal, disk of limited size and boot id, on a network of the
// lab's own. It is the product's demo, its end-to-end test bed, and a training ground.
//
// It needs root, and changes nothing on the host beyond what Down removes: no DNS, no hosts file, no NAT. It knows
// nothing of hops or drills; callers are `gpuaasctl lab` and tests.
//
// What is a fact on the host (a mount, a namespace, a running machine) is looked at, never remembered: Up brings the
// host from any state, also that of a killed Up, to the wanted one.
package lab
