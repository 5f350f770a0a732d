package workload

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/world"
)

// MaxOwners bounds the controllers that are looked up for one object: CronJob, Job and Pod are the longest chain that Kubernetes makes.
const MaxOwners = 3

// controllers are the kinds of controllers whose templates the package knows, with the version in which it reads them.
var controllers = map[string]string{
	"CronJob": "batch/v1", "DaemonSet": "apps/v1", "Deployment": "apps/v1", "Job": "batch/v1", "ReplicaSet": "apps/v1",
	"ReplicationController": "v1", "StatefulSet": "apps/v1",
}

// IsController reports whether the kind is one of those.
func IsController(kind string) bool { return controllers[kind] != "" }

// Owners returns the live controllers of an object in the namespace, the next one first: those that its references name, as far as they
// exist. The error means that one could not be read; the controllers before it are returned.
func Owners(ctx context.Context, objects world.Objects, namespace string, object map[string]any) (out []map[string]any, err error) {
	if namespace == "" {
		return nil, nil // such controllers are namespaced
	}
	for len(out) < MaxOwners {
		ref := reference(object)
		if ref == nil {
			return out, nil
		}
		if objects == nil {
			return out, world.ErrUnavailable
		}
		kind := text(ref, "kind")
		owner, err := objects.Get(ctx, controllers[kind], kind, namespace, text(ref, "name"))
		switch {
		case apierrors.IsNotFound(err):
			return out, nil
		case err != nil:
			return out, err
		}
		if uid := text(member(owner, "metadata"), "uid"); uid != "" && uid != text(ref, "uid") {
			return out, nil // another object of that name
		}
		out = append(out, owner)
		object = owner
	}
	return out, nil
}

// Controller returns the kind and the name of the controller that an object names; empty if there is none of a known kind.
func Controller(object map[string]any) (kind, name string) {
	ref := reference(object)
	return text(ref, "kind"), text(ref, "name")
}

// reference returns the reference to the controller of an object; nil if there is none of a known kind.
func reference(object map[string]any) map[string]any {
	list, _ := member(object, "metadata")["ownerReferences"].([]any)
	for _, x := range list {
		ref, _ := x.(map[string]any)
		if ref["controller"] != true {
			continue
		}
		kind := text(ref, "kind")
		wanted, known := controllers[kind]
		if !known || group(text(ref, "apiVersion")) != group(wanted) || text(ref, "name") == "" {
			return nil
		}
		return ref
	}
	return nil
}

func group(apiVersion string) string {
	g, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return g
}

func text(m map[string]any, name string) string { s, _ := m[name].(string); return s }

// member returns the object in a member, also through several; nil if there is none.
func member(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}
