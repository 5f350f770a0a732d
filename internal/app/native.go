package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/vapgen"
)

// Labels that include policies of the API server in reports, and that exclude bindings.
const (
	nativeEnabledLabel  = "reports.kyverno.io/enabled"
	nativeDisabledLabel = "reports.kyverno.io/disabled"
)

// knownTypes returns the types of all built-in kinds. They are large, so they are created for the first mutating policy.
var knownTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// natives follows the policies of the API server, and adds those with the label for reports to the catalog of the scans.
func (c *reporting) natives() (*intake.Policies, error) {
	kinds, err := c.flags.nativeKinds(c.resources)
	if err != nil {
		return nil, err
	}
	out := intake.NewPolicies(intake.PolicyOptions{
		Kinds: kinds, Catalog: c.catalog, Accept: reported, Compile: family.Options{Types: knownTypes, Existing: true}, Server: c.base.servers.Version, Log: c.log,
	})
	c.base.servers.Changed(func(kubeversion.Minor) { out.Recompile() })
	static, err := c.flags.fromFiles()
	if err != nil {
		return nil, err
	}
	for _, u := range static {
		out.Add(u)
	}
	return out, nil
}

// fromFiles returns the policies and bindings that the API server loads from files, of which it tells no client.
func (f *reportsFlags) fromFiles() (out []*unstructured.Unstructured, err error) {
	if f.static == "" {
		return nil, nil
	}
	objects, diags := source.Load([]string{f.static}, source.Options{Recursive: true, Numbers: source.Exact})
	if err := diags.Errors().Err(); err != nil {
		return nil, fmt.Errorf("--staticPolicies: %w", err)
	}
	for _, o := range objects {
		if u := (&unstructured.Unstructured{Object: o.Value}); ofFile(u) {
			out = append(out, u)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--staticPolicies: %s has no policy whose name ends with %s", f.static, vapgen.StaticSuffix)
	}
	return out, nil
}

// ofFile reports whether an API server has loaded an object from a file.
func ofFile(u *unstructured.Unstructured) bool {
	return strings.HasSuffix(u.GetName(), vapgen.StaticSuffix)
}

// reported reports whether a policy or binding of the API server is included in reports.
func reported(u *unstructured.Unstructured) bool {
	if compile.CompanionOf(u.GetAPIVersion(), u.GetKind()) != nil {
		_, off := u.GetLabels()[nativeDisabledLabel]
		return !off
	}
	return u.GetLabels()[nativeEnabledLabel] == "true" || ofFile(u)
}

// nativeKinds returns the kinds that the flags select. It returns an error if a flag requires a kind that the API server does not serve.
func (f *reportsFlags) nativeKinds(d discovery.ServerResourcesInterface) (family.Kinds, error) {
	var out family.Kinds
	for _, kind := range compile.Kinds {
		if wanted := f.switches[kind]; wanted == nil || !*wanted {
			continue
		}
		ok, err := serves(d, kind)
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

// serves reports whether the API server serves the kind in any version.
func serves(d discovery.ServerResourcesInterface, kind *family.Kind) (bool, error) {
	var errs []error
	for _, version := range kind.Versions {
		list, err := d.ServerResourcesForGroupVersion(kind.Group + "/" + version)
		if err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("look for the kind %s: %w", kind.Kind, err))
			}
			continue
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
			return true, nil
		}
	}
	return false, errors.Join(errs...)
}
