package schema

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/kubeversion"
)

// sinceText lists what versions after the oldest supported one added to the API; hack/since writes it.
//
//go:embed since.txt
var sinceText string

// additions are the lines of sinceText: `group/version Type field` with the version.
var additions = sync.OnceValue(func() map[string]kubeversion.Minor {
	out := map[string]kubeversion.Minor{}
	for line := range strings.Lines(sinceText) {
		what, version, ok := cutLast(strings.TrimSpace(line), " ")
		minor, found := strings.CutPrefix(version, "1.")
		n, err := strconv.ParseUint(minor, 10, 8)
		if !ok || !found || err != nil {
			panic("schema: since.txt has a line that is not valid: " + line)
		}
		out[what] = kubeversion.Minor(n)
	}
	return out
})

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// since returns the version of Kubernetes that added a field, or the whole type for *; 0 for those that all supported versions have.
func (s structure) since(field string) kubeversion.Minor {
	path, ok := strings.CutPrefix(s.t.PkgPath(), "k8s.io/api/")
	if !ok {
		return 0
	}
	return additions()[path+" "+s.t.Name()+" "+field]
}
