package diag

// Head is how every document of this tool begins: the promise that it keeps, and what it is.
type Head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NewHead heads a document of today's version.
func NewHead(kind string) Head { return Head{APIVersion, kind} }

// Headed is the head of the document that embeds it.
func (h Head) Headed() Head { return h }

// Document is what a program reads of this tool: an object that embeds a Head.
type Document interface{ Headed() Head }

// Documents are several as one JSON list. It has no head of its own.
type Documents[T Document] []T

// Headed is the head of the first one.
func (l Documents[T]) Headed() Head {
	for _, d := range l {
		return d.Headed()
	}
	return Head{}
}

// Lines are the documents one by one.
func (l Documents[T]) Lines() []Document {
	lines := make([]Document, len(l))
	for i, d := range l {
		lines[i] = d
	}
	return lines
}
