package profile

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaasctl/internal/bounded"
)

// InUse returns the path of the file that names the default profile. It is next to dir, the folder of the profiles.
func InUse(dir string) string { return filepath.Join(filepath.Dir(dir), "profile") }

// Default returns the name of the profile for commands that choose none: the one in InUse, else the only one in dir,
// else "".
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
