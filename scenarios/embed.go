// Package scenarios holds the drills that come with the tool, one file each. How they are read, and what may be in
// them, is package chaos's. Those below lab/ name files, units and addresses of the lab's machines; the others name
// only what the profile says.
package scenarios

import "embed"

// Files are the drills, below lab/ those of the lab, and below books/ the game days that are made of them.
//
//go:embed *.yaml lab/*.yaml books/*.yaml
var Files embed.FS
