// Package drill runs a plan and reports the outcome.
//
// A run is a list of events, in the order in which they happened. Each is written to the log before it takes
// effect, and everything that is reported about a run is a function of that list: the verdict, the report, the
// live view. So a run that was killed still reports as much as its list shows.
package drill
