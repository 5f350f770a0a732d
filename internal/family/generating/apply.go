package generating

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// maxObjects is the maximum number of objects that one evaluation may generate.
const maxObjects = 1000

// output collects the objects of one evaluation.
type output struct {
	call *policy.Call
	made []policy.Generated
}

// These texts are Kyverno's, verbatim.
const (
	textCrossScope     = "cross-scope generation denied: a policy scoped to namespace %q cannot generate cluster-scoped resource %s/%s"
	textCrossNamespace = "cross-namespace generation denied: a policy in namespace %q cannot generate resources into namespace %q"
)

// addAll adds the objects of a call of generator.apply. It places namespaced objects in this namespace, even if they name another one.
func (o *output) addAll(namespace string, objects []map[string]any) error {
	for _, object := range objects {
		for _, one := range itemsOf(object) {
			if err := o.add(one, func(string) (string, error) { return namespace, nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// rendered adds the objects of a template. These objects name their namespaces themselves.
func (o *output) rendered(objects []map[string]any) error {
	for _, object := range objects {
		if err := o.add(object, o.within); err != nil {
			return fmt.Errorf("failed to generate resources: %w", err)
		}
	}
	return nil
}

// within returns the namespace for an object that names one itself.
func (o *output) within(namespace string) (string, error) {
	switch own := o.call.Program.Namespace; {
	case own == "", namespace == own:
		return namespace, nil
	case namespace == "":
		return own, nil
	default:
		return "", fmt.Errorf(textCrossNamespace, own, namespace)
	}
}

// itemsOf returns the objects of a list, or the object itself.
func itemsOf(object map[string]any) []map[string]any {
	items, ok := object["items"].([]any)
	if !ok {
		return []map[string]any{object}
	}
	kind, _ := object["kind"].(string)
	out := make([]map[string]any, 0, len(items))
	for _, i := range items {
		item, ok := i.(map[string]any)
		if !ok {
			continue
		}
		if item["kind"] == nil || item["apiVersion"] == nil { // the list defines them for all of its items
			item = maps.Clone(item)
			item["apiVersion"], item["kind"] = object["apiVersion"], strings.TrimSuffix(kind, "List")
		}
		out = append(out, item)
	}
	return out
}

// add adds one object, without the fields that the API server sets.
func (o *output) add(object map[string]any, place func(said string) (string, error)) error {
	if len(o.made) == maxObjects {
		return fmt.Errorf("more than %d objects", maxObjects)
	}
	if err := o.call.Meter.Text(object); err != nil {
		return err
	}
	authored, ok := object["metadata"].(map[string]any)
	if !ok && object["metadata"] != nil {
		return errors.New("the metadata of an object is not a map")
	}
	text := func(m map[string]any, field string) string { s, _ := m[field].(string); return s }
	apiVersion, kind, said := text(object, "apiVersion"), text(object, "kind"), text(authored, "namespace")
	source := policy.Source{APIVersion: apiVersion, Kind: kind, Namespace: said, Name: text(authored, "name"), UID: text(authored, "uid")}
	live := text(authored, "resourceVersion") != ""

	metadata := maps.Clone(authored)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, history := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp"} {
		delete(metadata, history)
	}
	namespaced, err := o.namespaced(apiVersion, kind)
	if err != nil {
		return err
	}
	namespace := ""
	if namespaced {
		if namespace, err = place(said); err != nil {
			return err
		}
	} else if own := o.call.Program.Namespace; own != "" {
		return fmt.Errorf(textCrossScope, own, apiVersion, kind)
	}
	delete(metadata, "namespace")
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if said != "" && said != namespace {
		delete(metadata, "ownerReferences") // the owner may not exist in another namespace
	}
	out := maps.Clone(object)
	out["metadata"] = metadata
	made := policy.Generated{Object: out}
	if live {
		made.Source, made.SourceVersion = &source, text(authored, "resourceVersion")
	}
	o.made = append(o.made, made)
	return nil
}

// namespaced reports whether objects of the kind are namespaced. Without a cluster it treats unknown kinds as namespaced.
func (o *output) namespaced(apiVersion, kind string) (bool, error) {
	switch {
	case kinds.ClusterScoped(apiVersion, kind):
		return false, nil
	case o.call.Request.Origin == policy.FromCLI, o.call.World.Kinds.Namespaced == nil:
		return true, nil
	}
	namespaced, err := o.call.World.Kinds.Namespaced(o.call.Context(), world.Kind{APIVersion: apiVersion, Kind: kind})
	var unknown *world.NoKindError
	if errors.As(err, &unknown) {
		return false, fmt.Errorf("%w: check apiVersion and kind, and that the definition of a custom resource is installed", err)
	}
	return namespaced, err
}
