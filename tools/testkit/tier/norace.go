//go:build !race

package tier

const raced = false
