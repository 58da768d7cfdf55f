// Package scenarios holds the drills that come with the tool, one file each. How they are read, and what may be in
// them, is package chaos's.
package scenarios

import "embed"

// Files are the drills, and below books/ the game days that are made of them.
//
//go:embed *.yaml books/*.yaml
var Files embed.FS
