//go:build linux

package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// refreshMachines updates programs and configurations on running machines to those of this build, and restarts the
// units that use them.
func (l *Lab) refreshMachines(ctx context.Context) (string, error) {
	var changed []string
	var mu sync.Mutex // guards changed
	err := each(l.Machines(), func(m Machine) error {
		paths, err := l.refresh(ctx, m)
		mu.Lock()
		defer mu.Unlock()
		for _, path := range paths {
			changed = append(changed, m.Name+":"+path)
		}
		return err
	})
	if len(changed) == 0 {
		return "as built", err
	}
	l.renewedAt = time.Now()
	slices.Sort(changed)
	return fmt.Sprintf("renewed %v", changed), err
}

func (l *Lab) refresh(ctx context.Context, m Machine) ([]string, error) {
	files, err := l.machineFiles(m)
	if err != nil {
		return nil, err
	}
	root, err := l.openRoot(m.Name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var changed, units []string
	for _, f := range files {
		enrolls := m.IsPlatform() && filepath.Dir(f.path) == "/etc/gpuaas-platform/enroll" // of a node that was added
		program := filepath.Dir(f.path) == "/usr/local/bin"
		if (f.unit == "" && !enrolls && !program) || !f.differs(root) {
			continue
		}
		if err := f.put(root); err != nil {
			return changed, fmt.Errorf("put %s on %s: %w", f.path, m.Name, err)
		}
		changed = append(changed, f.path)
		if f.unit != "" && !slices.Contains(units, f.unit) {
			units = append(units, f.unit)
		}
	}
	if len(units) == 0 {
		return changed, nil
	}
	_, err = l.Exec(ctx, m.Name, append([]string{"systemctl", "restart"}, units...)...)
	return changed, err
}
