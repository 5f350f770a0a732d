package webhookconf

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OwnerLabel and its value OwnerValue mark the ClusterRoles among which FindOwner looks.
const (
	OwnerLabel = "app.kubernetes.io/component"
	OwnerValue = "kyverno"
)

// ownerSuffix ends the name of the ClusterRole that owns the configurations.
const ownerSuffix = ":webhook"

// FindOwner returns a reference to the ClusterRole of the installation whose name ends in `:webhook`. The chart
// makes it for this purpose: when it is deleted, the garbage collector removes the webhook configurations, whatever else
// was deleted before and whether we still run. Without one, or when it is being deleted, the reference is nil: then
// nothing would ever remove them, and they may not be made.
func FindOwner(ctx context.Context, reader client.Reader) (*metav1.OwnerReference, error) {
	var roles rbacv1.ClusterRoleList
	if err := reader.List(ctx, &roles, client.MatchingLabels{OwnerLabel: OwnerValue}); err != nil {
		return nil, fmt.Errorf("find the ClusterRole that owns the webhook configurations: %w", err)
	}
	slices.SortFunc(roles.Items, func(a, b rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	for i := range roles.Items {
		role := &roles.Items[i]
		if strings.HasSuffix(role.Name, ownerSuffix) && role.DeletionTimestamp == nil {
			return &metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID}, nil
		}
	}
	return nil, nil
}
