package observe

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// CleanupDeleted counts an object that a policy deleted on its schedule. what is its kind or its resource, depending on the family of
// the policy. propagation may be empty for the default. The configured namespaces apply to policies and requests; deletions are always
// counted.
func (m *Metrics) CleanupDeleted(p *policy.Program, what, namespace, propagation string) {
	m.deletion(p, suffixDeleted, what, namespace, propagation)
}

// CleanupFailed counts an object, or a whole kind, that a policy could not delete.
func (m *Metrics) CleanupFailed(p *policy.Program, what, namespace, propagation string) {
	m.deletion(p, suffixErrors, what, namespace, propagation)
}

// The suffixes of the metrics about deletions. The family of the policies defines the prefix.
const (
	suffixDeleted = "_deletedobjects"
	suffixErrors  = "_errors"
)

func (m *Metrics) deletion(p *policy.Program, suffix, what, namespace, propagation string) {
	if m == nil {
		return
	}
	if f := m.families[p.Names.Deletions+suffix]; f != nil {
		f.with(p.Kind, policyNamespace(p), p.Name, what, namespace, propagation).add(1)
	}
}

// CleanupStopped counts a run of a cleanup policy that ended because it reached the limit.
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

// TTLFailed counts an object that could not be deleted when its TTL expired.
func (m *Metrics) TTLFailed(r schema.GroupVersionResource, namespace string) {
	if m != nil {
		m.ttlErrors.with(namespace, r.Group, r.Version, r.Resource).add(1)
	}
}

// TTLStopped counts a round of TTL labels that ended because it reached the limit.
func (m *Metrics) TTLStopped(r schema.GroupVersionResource) {
	if m != nil {
		m.ttlStopped.with(r.Group, r.Version, r.Resource).add(1)
	}
}

// TTLWatched sets the function that lists the resources whose TTL labels are watched.
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
