package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by the linker in a release (-X github.com/mbwrap/mbwrap/internal/cli.version=1.2.3), and only there.
var version string

// versionOptions are those of version.
type versionOptions struct{ common }

func newVersion(env *Env) *command {
	o := &versionOptions{}
	return &command{
		name: "version", summary: "say what this program is made of",
		common: &o.common, plain: true, pager: true,
		about: `Prints the version, the commit it was built from, and the libraries that compress and encrypt. A build that has no version
of its own says which commit it is, and whether the tree had changes.`,
		examples: []string{"mbwrap version", "mbwrap version --json"},
		run:      func(context.Context, input) error { return runVersion(o, env) },
	}
}

// versionReport is what version --json prints.
type versionReport struct {
	Version  string    `json:"version"`
	Revision string    `json:"revision"` // of the version control system; "" if unknown
	Time     string    `json:"time"`     // of that revision; "" if unknown
	Modified bool      `json:"modified"` // built from a tree with changes
	Go       string    `json:"go"`
	Platform string    `json:"platform"`
	Cgo      bool      `json:"cgo"`
	Codecs   []library `json:"codecs"`
	Age      string    `json:"age"` // version of the library that encrypts; "" if unknown
}

// library is what a codec is built on.
type library struct {
	Codec   string `json:"codec"`
	Library string `json:"library"`
}

func runVersion(o *versionOptions, env *Env) error {
	info, _ := debug.ReadBuildInfo()
	v := describe(version, info)
	if o.JSON {
		return writeJSON(env.Stdout, v)
	}
	_, err := io.WriteString(env.Stdout, v.text())
	return err
}

// text is the report for people.
func (v versionReport) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mbwrap %s\n", v.Version)
	if v.Revision != "" {
		changes := ""
		if v.Modified {
			changes = ", with changes"
		}
		fmt.Fprintf(&b, "commit %s of %s%s\n", v.Revision, v.Time, changes)
	}
	for _, c := range v.Codecs {
		fmt.Fprintf(&b, "%s by %s\n", c.Codec, c.Library)
	}
	if v.Age != "" {
		fmt.Fprintf(&b, "encryption by %s %s\n", ageModule, v.Age)
	}
	fmt.Fprintf(&b, "%s %s\n", v.Go, v.Platform)
	return b.String()
}

// ageModule is the library that encrypts.
const ageModule = "filippo.io/age"

// describe puts the report together. info may be nil; linked is the version given by the linker.
func describe(linked string, info *debug.BuildInfo) versionReport {
	v := versionReport{Version: linked, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Codecs: libraries()}
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == ageModule {
				v.Age = m.Version
			}
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.time":
				v.Time = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			case "CGO_ENABLED":
				v.Cgo = s.Value == "1"
			}
		}
		if v.Version == "" && info.Main.Version != "(devel)" {
			v.Version = info.Main.Version
		}
	}
	if v.Version == "" {
		v.Version = "unreleased"
	}
	return v
}

// programVersion names this build in manifests and records.
func programVersion() string {
	info, _ := debug.ReadBuildInfo()
	v := describe(version, info)
	if v.Version == "unreleased" && v.Revision != "" {
		return "unreleased-" + v.Revision[:min(len(v.Revision), 12)]
	}
	return v.Version
}
