package reports

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/reports"
)

// Missing returns an error that names a kind of reports that the API server does not serve; nil if it serves them. err means that this is not
// known.
func Missing(d discovery.ServerResourcesInterface, form reports.Form) (missing, err error) {
	list, err := d.ServerResourcesForGroupVersion(form.Cluster.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("look for the kinds of reports: %w", err)
	}
	for _, kind := range []schema.GroupVersionResource{form.Namespaced, form.Cluster} {
		if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource }) {
			return fmt.Errorf("the kind %s of %s is not defined: reports cannot be written", kind.Resource, kind.GroupVersion()), nil
		}
	}
	return nil, nil
}
