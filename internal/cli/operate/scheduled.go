package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
)

// scheduled returns the kinds of policies that delete on a schedule, namespaced or cluster-wide.
func scheduled(namespaced bool) family.Kinds {
	return compile.Kinds.Where(func(k *family.Kind) bool { return k.Run != nil && k.Namespaced == namespaced })
}

// kindsOf lists the names of these kinds.
func kindsOf(namespaced bool, between string) string {
	var names []string
	for _, k := range scheduled(namespaced) {
		names = append(names, k.Kind)
	}
	return strings.Join(names, between)
}

// example returns the last of these kinds, which is the newest.
func example() *family.Kind {
	all := scheduled(false)
	return all[len(all)-1]
}

// findScheduled reads a policy that deletes on a schedule. name may have its kind and a slash before it; the kind selects one of
// several policies with the same name.
func findScheduled(ctx context.Context, objects dynamic.Interface, namespace, name string) (*unstructured.Unstructured, error) {
	kinds := scheduled(namespace != "")
	if of, bare, ok := strings.Cut(name, "/"); ok {
		name = bare
		kinds = kinds.Where(func(k *family.Kind) bool { return strings.EqualFold(of, k.Kind) || of == k.Resource || of == k.Short })
		if len(kinds) == 0 {
			return nil, fmt.Errorf("no kind %q of policies that delete on a schedule; there are %s", of, kindsOf(namespace != "", ", "))
		}
	}
	var found []*unstructured.Unstructured
	var short []string
	var failed []error
	for _, k := range kinds {
		u, err := objects.Resource(k.GVR()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			found, short = append(found, u), append(short, k.Short+"/"+name)
		case !apierrors.IsNotFound(err): // the policy may exist
			failed = append(failed, err)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("several policies have the name %s: say %s", name, strings.Join(short, " or "))
	case len(failed) > 0:
		return nil, errors.Join(failed...)
	case namespace != "":
		return nil, fmt.Errorf("no policy %q that deletes on a schedule in the namespace %s", name, namespace)
	}
	return nil, fmt.Errorf("no policy %q that deletes on a schedule; --namespace finds one of a namespace", name)
}
