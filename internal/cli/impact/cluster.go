package impact

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// cluster is the cluster whose objects are evaluated, and in which rules look things up.
type cluster struct {
	*remote.Cluster
	metas remote.Metas
	kinds *impact.Kinds
	roles *remote.Roles
}

func (o *options) open(ctx context.Context) (*cluster, error) {
	c, err := remote.Open(o.kubeconfig, o.context, o.registry)
	if err != nil {
		return nil, fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	config, err := remote.Config(o.kubeconfig, o.context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = remote.QPS, remote.Burst
	out := &cluster{Cluster: c, roles: remote.NewRoles(c)}
	out.metas.Kinds = c.Kinds
	if out.metas.Client, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	served, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	out.kinds = impact.NewKinds(discovery.New(served, time.Now))
	return out, nil
}

// attach sets the lookups in the cluster in the options of the evaluation.
func (c *cluster) attach(o *impact.Options) {
	o.Kinds, o.Root, o.Roles, o.Labels = c.kinds, c.Root, c.roles.Of, c.NamespaceLabels
	o.Live = true
}

// exceptions reads the exceptions of the cluster.
func (c *cluster) exceptions(ctx context.Context) (out []*policy.Exception, diags diag.List) {
	var kinds []discovery.Resource
	for _, x := range compile.Product.Exceptions() {
		kinds = append(kinds, c.Kinds.Wanted(policy.Target{Group: x.Group, Version: "*", Kind: x.Kind})...)
	}
	c.List(ctx, remote.Query{Kinds: kinds, Page: remote.PageSize}, func(p remote.Page) {
		for _, o := range p.Objects {
			e, found := compile.OneException(compile.Object{Value: o.Value})
			if !found.HasErrors() && !e.Expired(offline.Now()) { // the cluster does not use the others either
				out = append(out, e)
			}
		}
		if p.Err != nil {
			diags.Errorf("", "%s", p.Err)
		}
	})
	return out, diags
}

// inForce reads the policies of the cluster that the given policies would replace.
func (c *cluster) inForce(ctx context.Context, families *compile.Registry, programs []*policy.Program) (out []*policy.Program, diags diag.List, err error) {
	for _, p := range programs {
		f := families.FamilyOf(p.APIVersion, p.Kind)
		if f == nil {
			continue
		}
		i := slices.IndexFunc(f.Kinds, func(k *family.Kind) bool { return k.Kind == p.Kind })
		if i < 0 || f.Kinds[i].Foreign {
			continue
		}
		o, err := c.Dynamic.Resource(f.Kinds[i].GVR()).Namespace(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("read the policy %s in force: %w", p.Key(), err)
		}
		program, found := families.One(compile.Object{Value: o.Object})
		diags.Add(found...)
		out = append(out, program)
	}
	return out, diags, nil
}

// objects returns the objects of the cluster that the policies match, as requests that create them.
func (c *cluster) objects(ctx context.Context, programs []*policy.Program, namespace string) iter.Seq[impact.Record] {
	return func(yield func(impact.Record) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var kinds []discovery.Resource
		for _, k := range c.Kinds.All(programs) {
			if k.Subresource == "" {
				kinds = append(kinds, k)
			}
		}
		ended := false
		give := func(r impact.Record) {
			if !ended && !yield(r) {
				ended = true
				stop()
			}
		}
		c.List(ctx, remote.Query{Kinds: remote.InScope(kinds, namespace, false), Namespace: namespace, Page: remote.PageSize}, func(p remote.Page) {
			for _, o := range p.Objects {
				give(impact.Existing(p.Kind, o.Value))
			}
			if p.Err != nil && ctx.Err() == nil {
				give(impact.Record{At: p.Kind.Kind, Err: p.Err})
			}
		})
	}
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
