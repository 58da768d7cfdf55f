package page

// Kept returns the texts that are not empty.
func Kept(texts ...string) (kept []string) {
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

// After returns words followed by text, "" if text is empty.
func After(words, text string) string {
	if text == "" {
		return ""
	}
	return words + text
}
