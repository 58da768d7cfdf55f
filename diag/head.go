package diag

// Head begins every document of this tool: the API version, whose compatibility promise it keeps, and the kind.
type Head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NewHead returns the head of a document of the current version.
func NewHead(kind string) Head { return Head{APIVersion, kind} }

// Headed returns the head of the document that embeds it.
func (h Head) Headed() Head { return h }

// Document is machine-readable output of this tool: an object that embeds a Head.
type Document interface{ Headed() Head }

// Documents is a JSON list of several documents. The list has no head.
type Documents[T Document] []T

// Headed is the head of the first one.
func (l Documents[T]) Headed() Head {
	for _, d := range l {
		return d.Headed()
	}
	return Head{}
}

// Lines returns the documents as a slice.
func (l Documents[T]) Lines() []Document {
	lines := make([]Document, len(l))
	for i, d := range l {
		lines[i] = d
	}
	return lines
}
