package schema

import (
	"strings"
	"testing"
)

// has reports whether the path, with [] for the elements of a list, exists in t.
func has(t Type, path string) bool {
	for _, step := range strings.Split(path, ".") {
		name, element := strings.CutSuffix(step, "[]")
		var ok bool
		if t, ok = t.Field(name); !ok {
			return false
		}
		if element {
			if t, ok = t.Element(); !ok {
				return false
			}
		}
	}
	return true
}

func only(t *testing.T, k *Kinds, group, version, kind string) Type {
	t.Helper()
	found := k.Find(group, version, kind, "")
	if len(found) != 1 {
		t.Fatalf("%s: %d found", kind, len(found))
	}
	return found[0].Type
}

func TestKubernetesKinds(t *testing.T) {
	k := New()
	pod := only(t, k, "*", "*", "Pod")
	for path, want := range map[string]bool{
		"apiVersion": true, "metadata.labels.any/thing": true, "metadata.ownerReferences[].kind": true,
		"spec.containers[].image": true, "spec.containers.image": false, "spec.containrs": false,
		"spec.containers[].resources.limits.memory":     true,
		"spec.containers[].resources.limits.memory.x":   false,
		"spec.containers[].livenessProbe.httpGet.port":  true, // a member of an embedded struct
		"spec.volumes[].hostPath.path":                  true, // the same
		"spec.securityContext.seccompProfile.type":      true,
		"spec.containers[].securityContext.privileged":  true,
		"metadata.creationTimestamp":                    true,
		"spec.containers[].ports[].containerPort":       true,
		"spec.containers[].ports[].containerPort.value": false,
	} {
		if has(pod, path) != want {
			t.Errorf("Pod %s: %v", path, !want)
		}
	}
	if !has(only(t, k, "apps", "v1", "Deployment"), "spec.template.spec.containers[].image") {
		t.Error("a Deployment's template")
	}
	if n := len(k.Find("*", "*", "Deployment", "")); n < 2 {
		t.Errorf("%d versions of Deployment", n)
	}
	if len(k.Find("*", "*", "Pod", "exec")) != 0 || len(k.Find("*", "*", "Nothing", "")) != 0 {
		t.Error("found what does not exist")
	}
	spec, _ := pod.Field("spec")
	if names := spec.Names(); len(names) < 30 || names[0] != "activeDeadlineSeconds" {
		t.Errorf("members of a Pod's spec: %v", names)
	}
	if n := len(New().Find("*", "*", "*", "")); n < 50 {
		t.Errorf("%d kinds", n)
	}
}

func TestCustomKinds(t *testing.T) {
	object := func(properties map[string]any) map[string]any {
		return map[string]any{"type": "object", "properties": properties}
	}
	text := map[string]any{"type": "string"}
	k := New(map[string]any{"kind": "ConfigMap"}, map[string]any{
		"kind": "CustomResourceDefinition",
		"spec": map[string]any{
			"group": "example.com", "names": map[string]any{"kind": "Thing"},
			"versions": []any{
				map[string]any{"name": "v1", "schema": map[string]any{"openAPIV3Schema": object(map[string]any{
					"spec": object(map[string]any{
						"size": text,
						"tags": map[string]any{"type": "object", "additionalProperties": text},
						"rows": map[string]any{"type": "array", "items": object(map[string]any{"a": text})},
						"free": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
					}),
				})}},
				map[string]any{"name": "v2"},
			},
		},
	})
	thing := only(t, k, "example.com", "v1", "Thing")
	for path, want := range map[string]bool{
		"metadata.name": true, "spec.size": true, "spec.size.x": false, "spec.sise": false, "spec.tags.any": true,
		"spec.rows[].a": true, "spec.rows[].b": false, "spec.rows.a": false, "spec.free.a.b": true, "status": false,
	} {
		if has(thing, path) != want {
			t.Errorf("Thing %s: %v", path, !want)
		}
	}
	if !has(only(t, k, "example.com", "v2", "Thing"), "anything") {
		t.Error("a version without a schema may hold anything")
	}
}
