//go:build !linux

package main

import (
	"context"
	"errors"
)

var errNoLab = errors.New("needs the lab, so Linux and root")

func labSections() ([]section, func()) {
	return []section{{"walk", "on the lab", func(context.Context, options, *table) error { return errNoLab }}}, func() {}
}

func warmChild(context.Context, options) error { return errNoLab }
