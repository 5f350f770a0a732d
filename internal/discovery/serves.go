package discovery

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// Serves reports whether the API server serves the kind in any of the versions.
func Serves(d discovery.ServerResourcesInterface, group, kind string, versions ...string) (bool, error) {
	var errs []error
	for _, version := range versions {
		list, err := d.ServerResourcesForGroupVersion(group + "/" + version)
		if err != nil {
			if !apierrors.IsNotFound(err) {
				errs = append(errs, fmt.Errorf("look for the kind %s: %w", kind, err))
			}
			continue
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
			return true, nil
		}
	}
	return false, errors.Join(errs...)
}
