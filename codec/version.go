package codec

import (
	"path"
	"runtime/debug"
	"strings"
)

// moduleVersion returns a module's name without its host and, if the build tells it, its version.
func moduleVersion(module string) string {
	name := strings.TrimPrefix(module, "github.com/")
	if base := path.Base(name); strings.HasPrefix(base, "v") && len(base) == 2 {
		name = path.Dir(name)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return name + " " + m.Version
		}
	}
	return name
}
