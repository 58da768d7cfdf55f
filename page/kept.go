package page

// Kept are the texts that are not empty.
func Kept(texts ...string) (kept []string) {
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return kept
}

// After is a text behind the words that say what it is, "" where there is none.
func After(words, text string) string {
	if text == "" {
		return ""
	}
	return words + text
}
