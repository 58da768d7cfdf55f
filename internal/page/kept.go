package page

// NonEmpty returns the texts that are not empty.
func NonEmpty(texts ...string) (kept []string) {
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

// Prefixed returns words followed by text, "" if text is empty.
func Prefixed(words, text string) string {
	if text == "" {
		return ""
	}
	return words + text
}
