package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"strings"
)

// treeOf names the sources: the commit, and a digest of what is not committed.
func treeOf(ctx context.Context) (string, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return string(out), nil
	}
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	status, err := git("status", "--porcelain")
	if err != nil {
		return "", err
	}
	diff, err := git("diff", "HEAD")
	if err != nil {
		return "", err
	}
	name := strings.TrimSpace(head)
	if status != "" {
		name += fmt.Sprintf("+%x", sha256.Sum256([]byte(status+diff)))[:17]
	}
	return name, nil
}
