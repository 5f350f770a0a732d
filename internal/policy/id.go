package policy

// ID identifies a policy. Kinds are unique across the API groups of policies.
type ID struct {
	Kind      string
	Namespace string // empty for cluster-scoped policies
	Name      string
}

// Identity returns the ID of the Program.
func (p *Program) Identity() ID { return ID{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name} }

// Key returns `name` for cluster-scoped policies and `namespace/name` for namespaced ones.
func (id ID) Key() string {
	if id.Namespace == "" {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

// String returns the kind and the key.
func (id ID) String() string { return id.Kind + "/" + id.Key() }
