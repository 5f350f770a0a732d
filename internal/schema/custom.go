package schema

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/kubeversion"
)

// addCustom adds the kinds that a decoded CustomResourceDefinition defines; it ignores any other object.
func addCustom(to map[schema.GroupVersionKind]Type, crd map[string]any) {
	if crd["kind"] != "CustomResourceDefinition" {
		return
	}
	spec, _ := crd["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind, _ := names["kind"].(string)
	group, _ := spec["group"].(string)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		holder, _ := version["schema"].(map[string]any)
		root, ok := holder["openAPIV3Schema"].(map[string]any)
		if kind == "" || name == "" {
			continue
		}
		var t Type = Any
		if ok {
			t = resource{openAPI{root}}
		}
		to[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = t
	}
}

// resource is the type of a custom resource, which also has the fields that all objects have.
type resource struct{ openAPI }

func (r resource) Field(name string) (Type, bool) {
	switch name {
	case "apiVersion", "kind":
		return scalar{"string"}, true
	case "metadata":
		return of(reflect.TypeFor[metav1.ObjectMeta](), kubeversion.Newest), true
	}
	return r.openAPI.Field(name)
}

// openAPI is a schema of a CustomResourceDefinition.
type openAPI struct{ s map[string]any }

func (o openAPI) free() bool {
	free, _ := o.s["x-kubernetes-preserve-unknown-fields"].(bool)
	embedded, _ := o.s["x-kubernetes-embedded-resource"].(bool)
	either, _ := o.s["x-kubernetes-int-or-string"].(bool)
	kind, _ := o.s["type"].(string)
	return free || embedded || either || kind == ""
}

func (o openAPI) Field(name string) (Type, bool) {
	properties, _ := o.s["properties"].(map[string]any)
	if p, ok := properties[name].(map[string]any); ok {
		return openAPI{p}, true
	}
	switch more := o.s["additionalProperties"].(type) {
	case map[string]any:
		return openAPI{more}, true
	case bool:
		if more {
			return Any, true
		}
	}
	if o.free() || o.s["type"] == "object" && len(properties) == 0 {
		return Any, true
	}
	return nil, false
}

func (o openAPI) Element() (Type, bool) {
	if items, ok := o.s["items"].(map[string]any); ok {
		return openAPI{items}, true
	}
	if o.free() {
		return Any, true
	}
	return nil, false
}

func (o openAPI) Names() []string {
	properties, _ := o.s["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}
