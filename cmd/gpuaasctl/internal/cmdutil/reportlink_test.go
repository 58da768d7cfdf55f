package cmdutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestALinkOfAnotherUserIsNotFollowed: a report replaces no file of ours at the end of another user's link; our own
// link is kept, and its target replaced.
func TestALinkOfAnotherUserIsNotFollowed(t *testing.T) {
	for name, uid := range map[string]int{"ours": os.Geteuid(), "another user's": 65534} {
		dir := t.TempDir()
		victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "report.json")
		if err := os.WriteFile(victim, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(link, uid, uid); err != nil {
			t.Skip("skipped: needs root, to give a link to another user")
		}
		want := "new"
		err := ReplaceFile(link, []byte("new"))
		if uid == 65534 {
			want = "old"
			if err == nil || !strings.Contains(err.Error(), "is a link of user 65534") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if text, err := os.ReadFile(victim); string(text) != want {
			t.Errorf("%s: the target has %q, %v", name, text, err)
		}
	}
}
