package rule

import (
	"fmt"
	"maps"

	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

// Labels of generated objects.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "kyverno"
	labelPrefix    = "generate.kyverno.io/"
)

// target is the identity of a generated object.
type target struct{ apiVersion, kind, namespace, name string }

func (t target) String() string {
	return t.apiVersion + "/" + t.kind + "/" + t.namespace + "/" + t.name
}

// checkReach confines the writes of a namespaced policy to its namespace, in the same way as its reads.
func (t target) checkReach(s *scope.Scope) error {
	if s.Program == nil || s.Program.Namespace == "" || t.namespace == s.Program.Namespace {
		return nil
	}
	return fmt.Errorf(textOtherNamespace, s.Program.Namespace, t.namespace)
}

// object returns the generated object. Its identity and labels are those of the target, whatever the content contains, and the metadata
// that describes the history of the source is not copied.
func (t target) object(s *scope.Scope, content map[string]any, source *policy.Source) (map[string]any, error) {
	if err := t.checkReach(s); err != nil {
		return nil, err
	}
	labels, err := t.labels(s, content, source)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(content)
	if out == nil {
		out = map[string]any{}
	}
	authored, _ := content["metadata"].(map[string]any)
	metadata := maps.Clone(authored)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, history := range []string{"uid", "creationTimestamp", "managedFields", "resourceVersion", "selfLink", "generation", "generateName"} {
		delete(metadata, history)
	}
	if source != nil && source.Namespace != t.namespace {
		delete(metadata, "ownerReferences") // the owner may not exist in the place of the copy
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = asTexts(annotations)
		delete(annotations, mark.Annotation) // a copy of a generated object gets its own mark, which only the background controller creates
		metadata["annotations"] = annotations
	}
	out["apiVersion"], out["kind"] = t.apiVersion, t.kind
	metadata["name"], metadata["labels"] = t.name, labels
	delete(metadata, "namespace")
	if t.namespace != "" {
		metadata["namespace"] = t.namespace
	}
	out["metadata"] = metadata
	return out, nil
}

// asTexts converts numbers and booleans to strings, because variables such as elementIndex have types that are invalid in labels and
// annotations.
func asTexts(m map[string]any) map[string]any {
	out := maps.Clone(m)
	for k, v := range out {
		switch v.(type) {
		case float64, int64, bool:
			out[k] = value.JSON(v)
		}
	}
	return out
}

// labels returns the labels of the content together with those that identify the object.
func (t target) labels(s *scope.Scope, content map[string]any, source *policy.Source) (map[string]any, error) {
	trigger, err := s.Request.Subject()
	if err != nil {
		return nil, err
	}
	metadata, _ := content["metadata"].(map[string]any)
	authored, _ := metadata["labels"].(map[string]any)
	out := make(map[string]any, len(authored)+14)
	maps.Copy(out, asTexts(authored))
	triggerMetadata, _ := trigger["metadata"].(map[string]any)
	text := func(v any) string { s, _ := v.(string); return s }
	gvk, namespace, uid := s.Request.GVK, text(triggerMetadata["namespace"]), text(triggerMetadata["uid"])
	if s.Request.Subresource != "" && uid == "" {
		// An object that is sent to pods/exec or pods/eviction is not part of the Pod and is not stored. It is the trigger itself.
		gvk, namespace = s.Request.RequestGVK, s.Request.Namespace
	}
	set := map[string]string{
		"rule-name":       s.Rule.Name,
		"trigger-version": gvk.Version, "trigger-group": gvk.Group, "trigger-kind": gvk.Kind,
		"trigger-namespace": namespace, "trigger-uid": uid,
	}
	if s.Program != nil {
		set["policy-name"], set["policy-namespace"] = s.Program.Name, s.Program.Namespace
	}
	if source != nil {
		group, version := splitAPIVersion(source.APIVersion)
		set["source-version"], set["source-group"], set["source-kind"] = version, group, source.Kind
		set["source-namespace"], set["source-uid"] = source.Namespace, source.UID
	}
	for k, v := range set {
		out[labelPrefix+k] = v
	}
	out[labelManagedBy] = managedBy
	return out, nil
}
