package verdict

import (
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaasctl/diag"
	"github.com/gpuaas/gpuaasctl/preflight/hop"
)

// The causes of findings about a node's machine: what the kernel itself says of a file system, a device or its log.

func mountState(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return ofMount(f, func(m *diag.MountFacts) string {
		if m.State == diag.MountAnswers {
			return ""
		}
		return m.Point + ": " + m.State
	})
}

func mountFull(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return ofMount(f, func(m *diag.MountFacts) string {
		switch {
		case m.UsedPercent != nil && *m.UsedPercent >= 100:
			return fmt.Sprintf("%d%% of %s are used", *m.UsedPercent, m.Point)
		case m.InodesUsed != nil && *m.InodesUsed >= 100:
			return fmt.Sprintf("%d%% of the inodes of %s are used", *m.InodesUsed, m.Point)
		}
		return ""
	})
}

func mountReadOnly(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	return ofMount(f, func(m *diag.MountFacts) string {
		if !m.ReadOnly || !m.DeclaredWritable {
			return ""
		}
		return m.Point + " is mounted read-only"
	})
}

// ofMount returns what says words of the first file system of a fact.
func ofMount(f *diag.Fact, words func(*diag.MountFacts) string) (*diag.Fact, string) {
	if f.Mounts == nil {
		return nil, ""
	}
	for i := range f.Mounts.Mounts {
		if text := words(&f.Mounts.Mounts[i]); text != "" {
			return f, text
		}
	}
	return nil, ""
}

func memoryErrors(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Machine == nil {
		return nil, ""
	}
	for _, m := range f.Machine.MemoryErrors {
		if m.Uncorrectable > 0 {
			return f, fmt.Sprintf("%s counts %d errors that could not be corrected", m.Name, m.Uncorrectable)
		}
	}
	return nil, ""
}

func deadNVMe(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
	if f.Machine == nil {
		return nil, ""
	}
	for _, d := range f.Machine.NVMe {
		if d.State == "dead" {
			return f, "the kernel calls " + d.Name + " dead"
		}
	}
	return nil, ""
}

// kernelSays is for what the kernel itself has in its log.
func kernelSays(kinds ...diag.KernelKind) holder {
	return func(_ *hop.Case, f *diag.Fact) (*diag.Fact, string) {
		if f.Kernel == nil {
			return nil, ""
		}
		for i := range f.Kernel.Events {
			if e := &f.Kernel.Events[i]; slices.Contains(kinds, e.Kind) {
				return f, e.Text
			}
		}
		return nil, ""
	}
}
