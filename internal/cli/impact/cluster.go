package impact

import (
	"context"
	"fmt"
	"iter"
	"time"

	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// live is the cluster whose objects are evaluated, and in which rules look things up.
type live struct {
	*remote.Cluster
	policies *cluster.Reader
	kinds    *impact.Kinds
	roles    *remote.Roles
}

func (o *options) open() (*live, error) {
	c, err := remote.Open(o.kubeconfig, o.context, o.registry)
	if err != nil {
		return nil, fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	config, err := remote.Config(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = remote.QPS, remote.Burst
	served, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &live{
		Cluster: c, policies: cluster.New(c.Client, cluster.Options{Kinds: c.Kinds, Families: o.families}),
		kinds: impact.NewKinds(discovery.New(served, time.Now)), roles: remote.NewRoles(c),
	}, nil
}

// attach sets the lookups in the cluster in the options of the evaluation.
func (c *live) attach(o *impact.Options) {
	o.Kinds, o.Root, o.Roles, o.Labels = c.kinds, c.Root, c.roles.Of, c.NamespaceLabels
	o.Live = true
}

// exceptions reads the exceptions of the cluster that are in force.
func (c *live) exceptions(ctx context.Context) ([]*policy.Exception, diag.List) {
	var diags diag.List
	out, errs := c.policies.Exceptions(ctx, cluster.Where{}, offline.Now())
	for _, err := range errs {
		diags.Errorf("", "%s", err)
	}
	return out, diags
}

// inForce reads the policies of the cluster that the given policies would replace.
func (c *live) inForce(ctx context.Context, programs []*policy.Program) ([]*policy.Program, diag.List, error) {
	out, diags, denied, err := c.policies.InForce(ctx, programs, family.Options{})
	if err == nil && len(denied) > 0 {
		err = denied[0]
	}
	return out, diags, err
}

// objects returns the objects of the cluster that the policies match, as requests that create them.
func (c *live) objects(ctx context.Context, programs []*policy.Program, namespace string) iter.Seq[impact.Record] {
	kinds, err := c.policies.Kinds(programs)
	if err != nil {
		return func(yield func(impact.Record) bool) { yield(impact.Record{At: "the cluster", Err: err}) }
	}
	var where cluster.Where
	if namespace != "" {
		where.Namespaces = []string{namespace}
	}
	return c.policies.Objects(ctx, remote.InScope(kinds, namespace, false), where)
}

// labelsFrom returns a function that looks up the labels of namespaces in the given map. Other namespaces are unknown.
func labelsFrom(given map[string]map[string]string) func(context.Context, string) (map[string]string, error) {
	return func(_ context.Context, namespace string) (map[string]string, error) {
		labels, ok := given[namespace]
		if !ok {
			return nil, fmt.Errorf("the labels of namespace %s: %w; --values-file gives them", namespace, world.ErrUnavailable)
		}
		return labels, nil
	}
}
