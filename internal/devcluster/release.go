package devcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// VersionEnv selects the minor version of Kubernetes of all control planes, such as 1.35; empty for the version of devcluster/go.mod. GatesEnv
// has feature gates of the API server, such as AllAlpha=true.
const (
	VersionEnv = "EPHOR_KUBERNETES"
	GatesEnv   = "EPHOR_FEATURE_GATES"
)

// release is a version of Kubernetes from which a control plane is built.
type release struct {
	version string // such as v1.36.3
	source  string // the folder of the module
	modfile string // the file in it that requires the version; its sums are beside it
	bin     string
}

// Version returns the version of Kubernetes of the selected control plane, such as v1.36.3.
func Version() (string, error) {
	r, err := selected()
	return r.version, err
}

func selected() (release, error) { return releaseOf(os.Getenv(VersionEnv)) }

// releaseOf returns the release of a minor version; empty for the default. Other versions than the default have a go.mod of their own in
// devcluster/versions.
func releaseOf(minor string) (release, error) {
	root, err := Root()
	if err != nil {
		return release{}, err
	}
	r := release{source: filepath.Join(root, "devcluster"), modfile: "go.mod", bin: filepath.Join(root, "bin", "devcluster")}
	if r.version, err = r.required(); err != nil || minor == "" || of(r.version, minor) {
		return r, err
	}
	// The program looks at its name, so the name stays.
	r.modfile, r.bin = filepath.Join("versions", minor+".mod"), filepath.Join(root, "bin", "kubernetes-"+minor, "devcluster")
	if r.version, err = r.required(); os.IsNotExist(err) {
		return r, fmt.Errorf("%s=%s: there is no control plane of this version; there are %s", VersionEnv, minor, strings.Join(Versions(root), ", "))
	}
	return r, err
}

// of reports whether a version such as v1.36.3 is of a minor version such as 1.36.
func of(version, minor string) bool { return strings.HasPrefix(version, "v"+minor+".") }

var requirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)$`)

// required returns the version of Kubernetes that the module requires.
func (r release) required() (string, error) {
	content, err := os.ReadFile(filepath.Join(r.source, r.modfile))
	if err != nil {
		return "", err
	}
	found := requirement.FindSubmatch(content)
	if found == nil {
		return "", fmt.Errorf("%s does not require k8s.io/kubernetes", r.modfile)
	}
	return string(found[1]), nil
}

// Versions returns the minor versions for which a control plane can be built, the oldest first.
func Versions(root string) []string {
	var out []string
	for _, pattern := range []string{"go.mod", "versions/*.mod"} {
		files, _ := filepath.Glob(filepath.Join(root, "devcluster", pattern)) // the only error is a bad pattern
		for _, f := range files {
			version, err := release{source: filepath.Dir(f), modfile: filepath.Base(f)}.required()
			if parts := strings.Split(version, "."); err == nil && len(parts) > 1 {
				out = append(out, strings.TrimPrefix(parts[0], "v")+"."+parts[1])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
