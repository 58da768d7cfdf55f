// Package drill runs a plan and reports the outcome.
//
// A run is a list of events, in the order in which they happened. They are written down before anything else is done
// with them, and everything that is ever reported of a run is a function of that list: the verdict, the report, the
// live view. So a run that was killed reports as much as its list has.
package drill
