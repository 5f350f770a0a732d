package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/charts"
)

const definitionKind = "CustomResourceDefinition"

// definition is a definition that exists in the cluster and that Ephor knows.
type definition struct {
	name, group, kind string
	storage           string // the version in which objects are read
	objects           int
	counted           error // why its objects could not be counted
}

func (d definition) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: d.group, Version: d.storage, Kind: d.kind}
}

// ours are Ephor's definitions, by name, with the versions of each.
var ours = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for file, text := range charts.Definitions() {
		var crd struct {
			Metadata struct{ Name string }
			Spec     struct{ Versions []struct{ Name string } }
		}
		if err := json.Unmarshal(text, &crd); err != nil {
			panic("preflight: " + file + ": " + err.Error()) // the file is generated, and a test parses it
		}
		for _, v := range crd.Spec.Versions {
			out[crd.Metadata.Name] = append(out[crd.Metadata.Name], v.Name)
		}
	}
	return out
})

// keeper is a tool that deletes definitions, with the annotation that prevents it.
type keeper struct {
	tool       string
	key, value string
	owns       func(metav1.Object) bool
	how        string // when the tool deletes a definition
}

var keepers = []keeper{
	{
		tool: "Helm", key: "helm.sh/resource-policy", value: "keep", owns: ownedByHelm,
		how: "Helm deletes it with an upgrade whose chart or values leave it out",
	},
	{
		tool: "Argo CD", key: "argocd.argoproj.io/sync-options", value: "Prune=false", owns: ownedByArgoCD,
		how: "Argo CD prunes it with a sync whose manifests leave it out",
	},
	{
		tool: "Flux", key: "kustomize.toolkit.fluxcd.io/prune", value: "disabled", owns: func(o metav1.Object) bool {
			return o.GetLabels()["kustomize.toolkit.fluxcd.io/name"] != ""
		},
		how: "Flux prunes it when its Kustomization leaves it out",
	},
}

// ownedByHelm reports whether the object has Helm's marks. A rendered manifest of the chart has the label too; there the annotation
// is unnecessary but harmless.
func ownedByHelm(o metav1.Object) bool {
	return o.GetAnnotations()["meta.helm.sh/release-name"] != "" || o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm"
}

// ownedByArgoCD reports whether Argo CD applies the object. An Application tracks it by an annotation, or by a label that other tools also
// set: then the field manager shows it.
func ownedByArgoCD(o metav1.Object) bool {
	return o.GetAnnotations()["argocd.argoproj.io/tracking-id"] != "" ||
		slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(m.Manager, "argocd-") })
}

// kept reports whether the annotations prevent the deletion.
func (k keeper) kept(o metav1.Object) bool {
	return slices.ContainsFunc(strings.Split(o.GetAnnotations()[k.key], ","), func(v string) bool { return strings.TrimSpace(v) == k.value })
}

// annotation returns the value that prevents the deletion; it preserves an existing value.
func (k keeper) annotation(o metav1.Object) string {
	if before := o.GetAnnotations()[k.key]; before != "" && k.tool == "Argo CD" {
		return before + "," + k.value
	}
	return k.value
}

func (s *state) checkDefinitions(ctx context.Context) {
	names := make([]string, 0, len(ours()))
	for name := range ours() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := s.Reader.Get(ctx, types.NamespacedName{Name: name}, crd)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			s.unread(Object{Kind: definitionKind, Name: name}, err)
		default:
			s.definition(ctx, crd)
		}
	}
}

func (s *state) definition(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	d := definition{name: crd.Name, group: crd.Spec.Group, kind: crd.Spec.Names.Kind}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			d.storage = v.Name
		}
	}
	d.objects, d.counted = s.count(ctx, d.gvk())
	s.definitions = append(s.definitions, d)
	at := Object{Kind: definitionKind, Name: crd.Name}
	if d.counted != nil {
		s.unread(Object{Kind: d.kind}, d.counted)
	}
	var how, commands []string
	keep, managed := map[string]string{}, false
	for _, k := range keepers {
		if !k.owns(crd) {
			continue
		}
		managed = true
		if !k.kept(crd) {
			how = append(how, k.how)
			keep[k.key] = k.annotation(crd)
			commands = append(commands, fmt.Sprintf("kubectl annotate --overwrite crd %s %s=%s", crd.Name, k.key, keep[k.key]))
		}
	}
	switch {
	case len(how) > 0:
		s.add(Finding{
			Code: "definition-not-kept", Severity: Lost, Object: at, Commands: commands, keep: keep,
			Message: strings.Join(how, ", and ") + ", and with it " + d.text(),
		})
	case !managed:
		s.add(Finding{
			Code: "definition-unmanaged", Severity: Note, Object: at,
			Message: "no tool manages it, so that it stays; deleting the manifest that it came with (kubectl delete -f) deletes " + d.text(),
		})
	}
	for _, stored := range crd.Status.StoredVersions {
		if !slices.Contains(ours()[crd.Name], stored) {
			s.add(Finding{
				Code: "definition-stored-version", Severity: Stops, Object: at,
				Message:  fmt.Sprintf("objects may be stored in the version %s, which Ephor's definition does not have: the API server refuses the definition", stored),
				Commands: []string{"ephor migrate --resource " + crd.Name},
			})
		}
	}
}

// text describes the objects that a deletion of the definition would also delete.
func (d definition) text() string {
	switch {
	case d.counted != nil:
		return "all its objects"
	case d.objects == 0:
		return "the kind; it has no objects now"
	case d.objects == 1:
		return "its only object"
	}
	return fmt.Sprintf("its %d objects", d.objects)
}

// PreserveDefinitions sets the annotations that preserve the definitions in the report, and returns the names of the definitions that it changed.
func PreserveDefinitions(ctx context.Context, w client.Writer, r *Report) ([]string, error) {
	var done []string
	for _, f := range r.Findings {
		if len(f.keep) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": f.keep}})
		if err != nil {
			return done, err
		}
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind(definitionKind))
		crd.SetName(f.Object.Name)
		if err := w.Patch(ctx, crd, client.RawPatch(types.MergePatchType, patch), client.FieldOwner("ephor-preflight")); err != nil {
			return done, fmt.Errorf("annotate the definition %s: %w", f.Object.Name, err)
		}
		done = append(done, f.Object.Name)
	}
	return done, nil
}
