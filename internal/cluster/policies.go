package cluster

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
)

// Kinds returns the resources that the policies name, each in one version.
func (c *Reader) Kinds(programs []*policy.Program) (out []discovery.Resource, err error) {
	for _, p := range programs {
		for _, r := range p.Rules {
			for _, t := range r.Targets {
				if t.Unlisted {
					continue // the objects are those of Pods
				}
				found, err := c.o.Kinds.Find(t)
				if err != nil {
					return nil, fmt.Errorf("find the kinds of the policies: %w", err)
				}
				for _, k := range discovery.OneVersion(discovery.Main(found)) {
					if k.Listable && !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	return out, nil
}

// served returns the resource of a kind, in the version that the API server prefers; false if it serves none.
func (c *Reader) served(group, kind string) (k discovery.Resource, ok bool, err error) {
	found, err := c.o.Kinds.Find(policy.Target{Group: group, Version: "*", Kind: kind})
	if err != nil {
		return k, false, fmt.Errorf("find the kind %s: %w", kind, err)
	}
	kinds := discovery.OneVersion(discovery.Main(found))
	if len(kinds) == 0 {
		return k, false, nil
	}
	return kinds[0], true, nil
}

// PolicyKinds returns the kinds of policies that Ephor evaluates in a cluster.
func (c *Reader) PolicyKinds() []*family.Kind {
	return slices.DeleteFunc(slices.Clone(c.o.Families.Kinds()), func(k *family.Kind) bool { return k.Foreign || k.Offline })
}

// PolicyKind returns the kind of policies with that name; nil if Ephor does not evaluate such policies in a cluster.
func (c *Reader) PolicyKind(group, kind string) *family.Kind {
	kinds := c.PolicyKinds()
	i := slices.IndexFunc(kinds, func(k *family.Kind) bool { return k.Group == group && k.Kind == kind })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// InForce returns the policies of the cluster with the names of the programs, and the mistakes in them. denied are the errors of policies that
// the user may not read.
func (c *Reader) InForce(ctx context.Context, programs []*policy.Program, options family.Options) (out []*policy.Program, mistakes diag.List, denied []error, err error) {
	for _, p := range programs {
		group, _, _ := strings.Cut(p.APIVersion, "/")
		k := c.PolicyKind(group, p.Kind)
		if k == nil {
			continue
		}
		object, err := c.Get(ctx, k.GVR(), p.Namespace, p.Name)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			err = fmt.Errorf("read the policy %s in force: %w", p.Key(), err)
			if !apierrors.IsForbidden(err) {
				return nil, nil, nil, err
			}
			denied = append(denied, err)
			continue
		}
		program, found := c.o.Families.With(compile.Object{Value: object}, nil, options) // a rule with a mistake stays, and fails
		mistakes.Add(found...)
		out = append(out, program)
	}
	return out, mistakes, denied, nil
}

// Exceptions returns the exceptions in the cluster that are in force at a time, and the errors of lists that cannot be read.
func (c *Reader) Exceptions(ctx context.Context, w Where, now time.Time) (out []*policy.Exception, errs []error) {
	for object, err := range c.StoredExceptions(ctx, w) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		e, mistakes := c.o.Families.OneException(compile.Object{Value: object})
		if !mistakes.HasErrors() && !e.Expired(now) { // otherwise it is not in force either
			out = append(out, e)
		}
	}
	return out, errs
}

// StoredExceptions yields the exceptions in the cluster as they are stored, and the errors of lists that cannot be read.
func (c *Reader) StoredExceptions(ctx context.Context, w Where) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		for _, x := range c.o.Families.Exceptions() {
			k, ok, err := c.served(x.Group, x.Kind)
			if err != nil && !yield(nil, err) {
				return
			}
			if !ok {
				continue
			}
			for object, err := range c.List(ctx, k, w) {
				if !yield(object, err) {
					return
				}
			}
		}
	}
}

// Objects yields the existing objects of the kinds, as requests that create them. A list that cannot be read, in whole or in part, is a record with
// an error.
func (c *Reader) Objects(ctx context.Context, kinds []discovery.Resource, w Where) iter.Seq[impact.Record] {
	return func(yield func(impact.Record) bool) {
		for _, k := range kinds {
			for object, err := range c.List(ctx, k, w) {
				r := impact.Record{At: k.Kind, Err: err}
				if err == nil {
					if metadata, ok := object["metadata"].(map[string]any); ok {
						delete(metadata, "managedFields") // as in a file
					}
					r = impact.Existing(k, object)
				}
				if err != nil && ctx.Err() != nil || !yield(r) {
					return
				}
			}
		}
	}
}

// Meta implements rollout.Owners.Read.
func (c *Reader) Meta(ctx context.Context, r compliance.Resource) (rollout.Meta, bool, error) {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil || r.Name == "" {
		return rollout.Meta{}, false, nil
	}
	k, ok, err := c.served(gv.Group, r.Kind)
	if !ok {
		return rollout.Meta{}, false, err // an owner of a kind that is no longer served is gone, too
	}
	namespace := r.Namespace
	if !k.Namespaced {
		namespace = ""
	}
	object, err := c.get(ctx, k.GVR(), namespace, r.Name, metadataOf, nil)
	switch {
	case apierrors.IsNotFound(err):
		return rollout.Meta{}, false, nil
	case err != nil:
		return rollout.Meta{}, false, fmt.Errorf("get %s %s: %w", k.GVR().GroupResource(), r.Name, err)
	}
	m := metaOf(object)
	return rollout.Meta{Namespace: m.Namespace, UID: string(m.UID), Labels: m.Labels, Annotations: m.Annotations, Owners: m.OwnerReferences}, true, nil
}
