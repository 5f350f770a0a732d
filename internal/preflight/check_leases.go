package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/ring"
)

// leases are the Leases of the four controllers, in Kyverno and in Ephor.
var leases = []string{"kyverno", "kyverno-background-controller", "kyverno-cleanup-controller", "kyverno-reports-controller"}

func (s *state) checkLeases(ctx context.Context) {
	var list coordinationv1.LeaseList
	if err := s.Reader.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		s.unread(Object{Kind: "Lease", Namespace: s.Namespace}, err)
		return
	}
	own := map[string]bool{} // Ephor's Pods: each has its own Lease to share the work
	for i := range list.Items {
		if l := &list.Items[i]; l.Labels[ring.Label] != "" && l.Spec.HolderIdentity != nil {
			own[*l.Spec.HolderIdentity] = true
		}
	}
	for i := range list.Items {
		l := &list.Items[i]
		if !slices.Contains(leases, l.Name) || !s.alive(l) || own[*l.Spec.HolderIdentity] || s.isOurs(ctx, *l.Spec.HolderIdentity) {
			continue
		}
		s.add(Finding{
			Code: "lease-held", Severity: Note, Object: Object{Kind: "Lease", Namespace: l.Namespace, Name: l.Name},
			Message: fmt.Sprintf("%s holds it, renewed %s ago: the controller of Ephor begins its work when the Lease runs out, %d s after Kyverno's has ended",
				*l.Spec.HolderIdentity, s.Now().Sub(l.Spec.RenewTime.Time).Round(time.Second), *l.Spec.LeaseDurationSeconds),
		})
	}
}

// alive reports whether the Lease has a holder that has renewed it in time.
func (s *state) alive(l *coordinationv1.Lease) bool {
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return s.Now().Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second))
}

// isOurs reports whether the Pod runs a controller of Ephor: its first argument is `controller`.
func (s *state) isOurs(ctx context.Context, pod string) bool {
	p := &corev1.Pod{}
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: pod}, p); err != nil {
		return false // then the holder is reported without this check
	}
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return len(c.Args) > 0 && c.Args[0] == "controller" })
}
