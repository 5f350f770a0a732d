package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/report"
)

// Labels by which the API server's own policies take part in reports, and bindings do not.
const (
	nativeEnabledLabel  = "reports.kyverno.io/enabled"
	nativeDisabledLabel = "reports.kyverno.io/disabled"
)

// natives follows policies of the API server itself, and puts those that want to be reported into the catalog of the scans.
type natives struct {
	catalog *catalog.Catalog
	types   func() managedfields.TypeConverter
	log     *slog.Logger

	mu sync.Mutex
	// policies and bindings are the objects by kind and name, as they were last seen.
	policies, bindings map[nativeKey]*unstructured.Unstructured
}

type nativeKey struct{ kind, name string }

// bindingSuffix tells the kind of bindings from that of policies.
const bindingSuffix = "Binding"

// boundPolicy is the policy that a binding names; none for a policy.
func boundPolicy(binding *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
	return name
}

func newNatives(c *catalog.Catalog, log *slog.Logger) *natives {
	return &natives{
		catalog: c, log: log, policies: map[nativeKey]*unstructured.Unstructured{}, bindings: map[nativeKey]*unstructured.Unstructured{},
		// The types of all kinds of Kubernetes are large: they are made when a policy that mutates first asks for them.
		types: sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) }),
	}
}

// watched are the kinds to follow.
func (n *natives) watched(kinds []schema.GroupVersionKind) []watched {
	var out []watched
	for _, gvk := range kinds {
		objects := n.policies
		if strings.HasSuffix(gvk.Kind, bindingSuffix) {
			objects = n.bindings
		}
		out = append(out, watched{policyObject(gvk), toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { n.set(objects, obj) },
			UpdateFunc: func(_, obj any) { n.set(objects, obj) },
			DeleteFunc: func(obj any) {
				if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
					obj = gone.Obj
				}
				n.remove(objects, obj)
			},
		}})
	}
	return out
}

func (n *natives) set(objects map[nativeKey]*unstructured.Unstructured, obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := nativeKey{u.GetKind(), u.GetName()}
	old := objects[key]
	objects[key] = u
	if old != nil && sameContent(old, u) {
		return
	}
	if old != nil && boundPolicy(old) != boundPolicy(u) {
		n.compile(old) // a binding has left it
	}
	n.compile(u)
}

func (n *natives) remove(objects map[nativeKey]*unstructured.Unstructured, obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(objects, nativeKey{u.GetKind(), u.GetName()})
	n.compile(u)
}

// compile brings the policy into the catalog that the object is or binds. The lock is held.
func (n *natives) compile(of *unstructured.Unstructured) {
	key := nativeKey{of.GetKind(), of.GetName()}
	if kind, isBinding := strings.CutSuffix(of.GetKind(), bindingSuffix); isBinding {
		key = nativeKey{kind, boundPolicy(of)}
	}
	id := catalog.ID{Kind: key.kind, Name: key.name}
	object := n.policies[key]
	if object == nil || object.GetLabels()[nativeEnabledLabel] != "true" {
		n.catalog.Delete(id)
		return
	}
	var bindings compile.Companions
	for _, at := range slices.SortedFunc(maps.Keys(n.bindings), func(a, b nativeKey) int { return strings.Compare(a.name, b.name) }) {
		b := n.bindings[at]
		_, off := b.GetLabels()[nativeDisabledLabel]
		if !off && boundPolicy(b) == key.name && at.kind == key.kind+bindingSuffix {
			for _, d := range bindings.Add(compile.Object{Value: b.Object}).Errors() {
				n.log.Warn("policy has a mistake", "policy", key.kind+"/"+key.name, "path", d.Path, "mistake", d.Summary)
			}
		}
	}
	attached := bindings.Of(id)
	program, diags := compile.With(compile.Object{Value: object.Object}, attached, family.Options{Types: n.types, Existing: true})
	for _, d := range diags.Errors() {
		n.log.Warn("policy has a mistake", "policy", key.kind+"/"+key.name, "path", d.Path, "mistake", d.Summary)
	}
	if diags.HasErrors() {
		n.catalog.Delete(id)
		return
	}
	n.catalog.Set(program)
	n.log.Info("policy reported", "policy", key.kind+"/"+key.name, "bindings", len(attached))
}

// nativeKinds are the kinds to follow by the flags, each in the version that the API server serves. A kind that is asked for in
// so many words and is not served is an error.
func (f *reportsFlags) nativeKinds(d discovery.ServerResourcesInterface) ([]schema.GroupVersionKind, error) {
	var out []schema.GroupVersionKind
	for _, n := range []struct {
		wanted, required bool
		flag, kind       string
	}{
		{f.validatingNative, false, "validatingAdmissionPolicyReports", report.SourceNative},
		{f.mutatingNative, true, "mutatingAdmissionPolicyReports", report.SourceMutating},
	} {
		if !n.wanted {
			continue
		}
		version, err := servedNative(d, n.kind)
		switch {
		case err != nil:
			return nil, err
		case version == "" && n.required:
			return nil, fmt.Errorf("--%s: the API server does not serve %s", n.flag, n.kind)
		case version != "":
			gv := schema.GroupVersion{Group: nativeGroup, Version: version}
			out = append(out, gv.WithKind(n.kind), gv.WithKind(n.kind+bindingSuffix))
		}
	}
	return out, nil
}

const nativeGroup = "admissionregistration.k8s.io"

// servedNative is the newest version in which the kind is served; empty when it is not.
func servedNative(d discovery.ServerResourcesInterface, kind string) (string, error) {
	var errs []error
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		list, err := d.ServerResourcesForGroupVersion(nativeGroup + "/" + version)
		if err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("look for the kind %s: %w", kind, err))
			}
			continue
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
			return version, nil
		}
	}
	return "", errors.Join(errs...)
}
