package observe

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/policy"
)

// CleanupDeleted counts an object that a cleanup policy deleted. propagation may be empty, which stands for the default. The
// namespaces of the configuration choose policies and requests; what is deleted is counted everywhere.
func (m *Metrics) CleanupDeleted(p *policy.Program, kind, namespace, propagation string) {
	if m != nil {
		m.cleanupDeleted.with(p.Kind, policyNamespace(p), p.Name, kind, namespace, propagation).add(1)
	}
}

// CleanupFailed counts an object, or a whole kind, that a cleanup policy could not delete.
func (m *Metrics) CleanupFailed(p *policy.Program, kind, namespace, propagation string) {
	if m != nil {
		m.cleanupErrors.with(p.Kind, policyNamespace(p), p.Name, kind, namespace, propagation).add(1)
	}
}

// CleanupStopped counts a run of a cleanup policy that the limit stopped.
func (m *Metrics) CleanupStopped(p *policy.Program) {
	if m != nil {
		m.cleanupStopped.with(p.Kind, policyNamespace(p), p.Name).add(1)
	}
}

// TTLDeleted counts an object that was deleted because of its TTL label.
func (m *Metrics) TTLDeleted(r schema.GroupVersionResource, namespace string) {
	if m != nil {
		m.ttlDeleted.with(namespace, r.Group, r.Version, r.Resource).add(1)
	}
}

// TTLFailed counts an object that could not be deleted when its TTL was over.
func (m *Metrics) TTLFailed(r schema.GroupVersionResource, namespace string) {
	if m != nil {
		m.ttlErrors.with(namespace, r.Group, r.Version, r.Resource).add(1)
	}
}

// TTLStopped counts a round of TTL labels that the limit stopped.
func (m *Metrics) TTLStopped(r schema.GroupVersionResource) {
	if m != nil {
		m.ttlStopped.with(r.Group, r.Version, r.Resource).add(1)
	}
}

// TTLWatched says where the resources are found whose TTL labels are watched.
func (m *Metrics) TTLWatched(list func() []schema.GroupVersionResource) {
	if m != nil {
		m.ttlWatched.Store(&list)
	}
}

func (m *Metrics) collectTTL(set func(float64, ...string)) {
	if list := m.ttlWatched.Load(); list != nil {
		for _, r := range (*list)() {
			set(1, r.Group, r.Version, r.Resource)
		}
	}
}
