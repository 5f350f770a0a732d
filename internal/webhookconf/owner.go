package webhookconf

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnerLabel, with the value OwnerValue, is the label of ClusterRoles that exist only to own the configurations.
const (
	OwnerLabel = "app.kubernetes.io/component"
	OwnerValue = "kyverno"
)

// ownerSuffix is the suffix of the name of a ClusterRole that exists only to own the configurations.
const ownerSuffix = ":webhook"

// Owners selects the ClusterRoles that FindOwner considers.
func Owners() labels.Selector {
	in, err := labels.NewRequirement(OwnerLabel, selection.In, []string{OwnerValue, "admission-controller", "cleanup-controller"})
	if err != nil {
		panic(err) // the label and its values are constants
	}
	return labels.NewSelector().Add(*in)
}

// FindOwner returns a reference to the ClusterRole that owns the configurations: when it is deleted, the garbage collector removes them,
// even if our process no longer runs. The owner is the controller's own role. It has the same name in Kyverno's chart, so an upgrade from
// one chart to the other preserves the role and the configurations. If that role does not exist, the owner is a role whose name ends in
// `:webhook`. If there is none, or while it is being deleted, the reference is nil. Then the configurations must not be created, since
// nothing would ever remove them.
func FindOwner(ctx context.Context, reader client.Reader, role string) (*metav1.OwnerReference, error) {
	var roles rbacv1.ClusterRoleList
	if err := reader.List(ctx, &roles, client.MatchingLabelsSelector{Selector: Owners()}); err != nil {
		return nil, fmt.Errorf("find the ClusterRole that owns the webhook configurations: %w", err)
	}
	slices.SortFunc(roles.Items, func(a, b rbacv1.ClusterRole) int {
		return cmp.Or(-compareBool(a.Name == role, b.Name == role), strings.Compare(a.Name, b.Name))
	})
	for i := range roles.Items {
		r := &roles.Items[i]
		own := r.Name == role || r.Labels[OwnerLabel] == OwnerValue && strings.HasSuffix(r.Name, ownerSuffix)
		if own && r.DeletionTimestamp == nil {
			return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: r.Name, UID: r.UID}, nil
		}
	}
	return nil, nil
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
