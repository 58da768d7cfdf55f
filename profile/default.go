package profile

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// InUse is the file that names the profile of commands that choose none. It is beside dir, the folder of the profiles.
func InUse(dir string) string { return filepath.Join(filepath.Dir(dir), "profile") }

// Default is the profile of commands that choose none: the one that InUse names, else the only one in dir. It is ""
// where there are several, or none.
func Default(dir string) string {
	if f, err := openOwn(context.Background(), InUse(dir)); err == nil {
		defer f.Close()
		if data, err := f.read(bounded.YAML); err == nil && len(strings.TrimSpace(string(data))) > 0 {
			return strings.TrimSpace(string(data))
		}
	}
	if names := List(dir); len(names) == 1 {
		return names[0]
	}
	return ""
}
