package bounded

// The limits of each document, with the sizes of real ones. The largest recorded report has 157 KB, 250 list elements
// and 4,600 values in 10 levels; the largest drill report 184 KB and 541 elements; the largest answer of a node, its
// record, 48 KB and 91 elements. The limits allow ten times these and more. A decoded document needs at most about 1
// KiB for each element (a fact has 736 bytes), doubled while a list grows, and 100 bytes for each other value.
const (
	maxDocument = 16 << 20 // a report or a log with the CA bundles and journals of a fleet
	maxLine     = 4 << 20  // several times a request with a whole trust bundle
	maxAnswer   = 1 << 20  // bodies of HTTP
)

// Document is for a report, a drill's report, a plan or a record, from a file or the history.
func Document() Limits {
	return Limits{Bytes: maxDocument, Elements: 20_000, Values: 200_000, Depth: 32}
}

// Log is for a file with a document on each line: a drill's events, a node's history. Its lines count as one document.
func Log() Limits { return Limits{Bytes: maxDocument, Elements: 20_000, Values: 400_000, Depth: 32} }

// Manifest is for the list of a bundle's contents.
func Manifest() Limits { return Limits{Bytes: 1 << 20, Elements: 4_000, Values: 40_000, Depth: 16} }

// Line is for one line of a node's probe or helper: at most the 320 entries of its record, or as many lines of its
// journal.
func Line() Limits { return Limits{Bytes: maxLine, Elements: 8_000, Values: 80_000, Depth: 24} }

// Answer is for the body of an HTTP answer or request, or a list that was extracted from one.
func Answer() Limits { return Limits{Bytes: maxAnswer, Elements: 16_000, Values: 80_000, Depth: 32} }

// Small is for a document of a few fields: a claim, an error envelope, a hello, a frame of a terminal, one line of a
// log.
func Small() Limits { return Limits{Bytes: maxAnswer, Elements: 1_000, Values: 4_000, Depth: 16} }

// Limits of files that are not JSON.
const (
	// YAML is the maximum size of a profile, a drill or a suite: the YAML reader limits aliases itself, and a node of
	// its tree has some 200 bytes for two of the text.
	YAML = 256 << 10
	// DocumentBytes is Document's limit of bytes.
	DocumentBytes = maxDocument
	// ArchivedFile and Archive bound what is unpacked from a bundle: of one file, and in total.
	ArchivedFile, Archive = maxDocument, 64 << 20
	// ArchivedFiles is the maximum number of files in a bundle, which has some thirty.
	ArchivedFiles = 512
)

// LinkBudget bounds the answers on one connection, which are kept until a walk is judged. An answer costs its bytes,
// and ElementCost for each list element, since it may decode into a struct.
const (
	LinkBudget  = 16 << 20  // initially: a walk has thirty answers of some 50 KB
	LinkRefill  = 128 << 10 // per second: for days, a watch requests a record of 200 KB every few seconds
	ElementCost = 1 << 10
)

// History is for the history of a bundle, with an event on each line: ten journals of 5,000 lines each.
func History() Limits {
	return Limits{Bytes: ArchivedFile, Elements: 100_000, Values: 1_000_000, Depth: 16}
}
