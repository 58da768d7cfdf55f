//go:build !linux

package main

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"
)

func newLab(*app) *cobra.Command {
	return &cobra.Command{
		Use:   "lab",
		Short: "Raise an environment of real machines (Linux only)",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("the lab needs Linux, this is " + runtime.GOOS)
		},
	}
}
