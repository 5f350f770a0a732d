package discovery

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/kinds"
)

// ResourceOf returns the main resource of a kind without asking an API server. It is exact for the kinds of Kubernetes and for
// those whose definition follows the naming convention of the API.
func ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(kinds.Plural(gvk.Kind))
}

// Offline knows the kinds of Kubernetes and those of given CustomResourceDefinitions. The zero Offline has no definitions.
type Offline struct{ plurals map[schema.GroupKind]string }

// Define adds a decoded CustomResourceDefinition and ignores other objects.
func (o *Offline) Define(object map[string]any) {
	if object["kind"] != "CustomResourceDefinition" {
		return
	}
	spec, _ := object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind, _ := names["kind"].(string)
	plural, _ := names["plural"].(string)
	group, _ := spec["group"].(string)
	if kind == "" || plural == "" || group == "" {
		return
	}
	if o.plurals == nil {
		o.plurals = map[schema.GroupKind]string{}
	}
	o.plurals[schema.GroupKind{Group: group, Kind: kind}] = plural
}

// ResourceOf is the function ResourceOf, with the names of the definitions.
func (o *Offline) ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	if plural := o.plurals[gvk.GroupKind()]; plural != "" {
		return gvk.GroupVersion().WithResource(plural)
	}
	return ResourceOf(gvk)
}
