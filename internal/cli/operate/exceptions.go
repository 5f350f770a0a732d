package operate

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// withExceptions returns the policy with its exceptions in a namespace; * means all namespaces. It ignores expired exceptions. An exception
// with a mistake makes the evaluation of objects fail, as in the cleanup controller.
func withExceptions(ctx context.Context, objects dynamic.Interface, p *policy.Program, namespace string, now time.Time) (*policy.Program, error) {
	if namespace == "*" {
		namespace = ""
	}
	var found []*policy.Exception
	of := compile.Kinds.Where(func(k *family.Kind) bool { return k.Kind == p.Kind })
	for _, k := range compile.Product.ExceptionsFrom(of) {
		resource := objects.Resource(k.GVK().GroupVersion().WithResource(k.Resource)).Namespace(namespace)
		_, err := controller.Pages(ctx, metav1.ListOptions{Limit: remote.PageSize}, resource.List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				e, diags := compile.OneException(compile.Object{Value: page.Items[i].Object})
				if err := diags.Errors().Err(); err != nil && e != nil {
					e = e.Unusable(err)
				}
				if e != nil && !e.Expired(now) {
					found = append(found, e)
				}
			}
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) { // the cluster need not serve the kind
			return nil, fmt.Errorf("read the exceptions: %w", err)
		}
	}
	return catalog.Join([]*policy.Program{p}, found)[0], nil
}

// excepted returns the policy with the exceptions that apply, and warns of other exceptions that name it.
func (p *preview) excepted(ctx context.Context, objects dynamic.Interface, program *policy.Program) (*policy.Program, error) {
	if p.exceptions != "" {
		return withExceptions(ctx, objects, program, p.exceptions, time.Now())
	}
	switch joined, err := withExceptions(ctx, objects, program, "*", time.Now()); {
	case err != nil:
		fmt.Fprintln(p.warnings, "Warning: it is not known whether exceptions name the policy:", err)
	case joined != program:
		fmt.Fprintln(p.warnings, "Warning: exceptions name the policy; --exception-namespace applies them, with the value of the cleanup controller's --exceptionNamespace")
	}
	return program, nil
}
