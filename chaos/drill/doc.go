// Package drill runs a plan and says what came of it.
//
// A run is a list of events, in the order in which they happened. They are written down before anything else is done with
// them, and everything that is ever said of a run is a function of that list: the verdict, the report, the live view. So
// a run that was killed tells as much as its list has.
package drill
