// Package preflight is tested here, as a whole.
package preflight
