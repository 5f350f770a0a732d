package scan

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/vapgen"
)

// Labels that include policies of the API server in reports, and that exclude bindings.
const (
	nativeEnabledLabel  = "reports.kyverno.io/enabled"
	nativeDisabledLabel = "reports.kyverno.io/disabled"
)

// NativeFlags select the policies of the API server that are scanned, by the family.Switch of their kinds, and those in files.
type NativeFlags struct {
	switches map[*family.Kind]*bool
	static   string
}

// Register adds the flags.
func (f *NativeFlags) Register(fs *pflag.FlagSet) {
	f.switches = map[*family.Kind]*bool{}
	for _, k := range compile.Kinds {
		if s := k.Switch; s != nil {
			f.switches[k] = fs.Bool(s.Flag, s.On, s.Usage)
		}
	}
	fs.StringVar(&f.static, "staticPolicies", "", "folder with the policies that the API server loads from files, which scans evaluate; it is read at start. Empty for none")
}

// FromFiles returns the policies and bindings that the API server loads from files, of which it tells no client.
func (f *NativeFlags) FromFiles() (out []*unstructured.Unstructured, err error) {
	if f.static == "" {
		return nil, nil
	}
	objects, diags := source.Load([]string{f.static}, source.Options{Recursive: true, Numbers: source.Exact})
	if err := diags.Errors().Err(); err != nil {
		return nil, fmt.Errorf("--staticPolicies: %w", err)
	}
	for _, o := range objects {
		if u := (&unstructured.Unstructured{Object: o.Value}); fromFile(u) {
			out = append(out, u)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--staticPolicies: %s has no policy whose name ends with %s", f.static, vapgen.StaticSuffix)
	}
	return out, nil
}

// fromFile reports whether an API server has loaded an object from a file.
func fromFile(u *unstructured.Unstructured) bool {
	return strings.HasSuffix(u.GetName(), vapgen.StaticSuffix)
}

// Kinds returns the kinds that the flags select. It returns an error if a flag requires a kind that the API server does not serve.
func (f *NativeFlags) Kinds(d clientdiscovery.ServerResourcesInterface) (family.Kinds, error) {
	var out family.Kinds
	for _, kind := range compile.Kinds {
		if wanted := f.switches[kind]; wanted == nil || !*wanted {
			continue
		}
		ok, err := discovery.Serves(d, kind.Group, kind.Kind, kind.Versions...)
		switch {
		case err != nil:
			return nil, err
		case !ok && kind.Switch.Required:
			return nil, fmt.Errorf("--%s: the API server does not serve %s", kind.Switch.Flag, kind.Kind)
		case ok:
			out = append(out, kind)
		}
	}
	return out, nil
}

// Reported reports whether a policy or binding of the API server is included in reports.
func Reported(u *unstructured.Unstructured) bool {
	if compile.CompanionOf(u.GetAPIVersion(), u.GetKind()) != nil {
		_, off := u.GetLabels()[nativeDisabledLabel]
		return !off
	}
	return u.GetLabels()[nativeEnabledLabel] == "true" || fromFile(u)
}
