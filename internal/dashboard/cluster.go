package dashboard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// maxPolicies is the maximum number of policies that can be chosen.
const maxPolicies = 1000

// clusterOf returns the cluster that the owner of a token may read. Without tokens it has the rights of the controller.
func (d *Dashboard) clusterOf(token string) (*cluster.Reader, error) {
	client := d.o.Client
	if d.o.Tokens != nil {
		var err error
		if client, err = d.o.As(token); err != nil {
			return nil, fmt.Errorf("connect to the API server for a user: %w", err)
		}
	}
	return cluster.New(client, cluster.Options{Kinds: d.o.Discovery, Families: d.o.Families}), nil
}

// denied returns the number of errors for what the user may not read, and the first other error.
func denied(errs []error) (n int, err error) {
	for _, err := range errs {
		if !apierrors.IsForbidden(err) {
			return n, err
		}
		n++
	}
	return n, nil
}

// within returns records within the bounds. Lists that the user may not read are counted.
func (b *bounds) within(records iter.Seq[impact.Record]) iter.Seq[impact.Record] {
	return func(yield func(impact.Record) bool) {
		for r := range records {
			switch {
			case apierrors.IsForbidden(r.Err):
				b.denied++
				continue
			case r.Err != nil:
				r.Err = errors.New("objects of this kind could not be listed")
			case !b.next():
				return
			}
			if !yield(r) {
				return
			}
		}
	}
}

// choice identifies a policy that can be chosen.
type choice struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// choices returns the policies that the user may list.
func (d *Dashboard) choices(ctx context.Context, c *cluster.Reader, visible []string) ([]choice, error) {
	out := []choice{}
	for _, k := range c.PolicyKinds() {
		found, err := d.o.Discovery.Find(policy.Target{Group: k.Group, Version: k.Versions[0], Kind: k.Kind})
		if err != nil || len(found) == 0 {
			continue // the kind is not served
		}
		for m, err := range c.Metas(ctx, found[0], cluster.Where{Visible: visible}) {
			switch {
			case apierrors.IsForbidden(err):
				continue
			case err != nil:
				return nil, fmt.Errorf("list policies: %w", err)
			}
			if out = append(out, choice{k.Group, k.Kind, m.Namespace, m.Name}); len(out) >= maxPolicies {
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b choice) int {
		return strings.Compare(a.Kind+"/"+a.Namespace+"/"+a.Name, b.Kind+"/"+b.Namespace+"/"+b.Name)
	})
	return out, nil
}

// policyText returns a policy as its author would write it; empty if there is none or the user may not read it.
func policyText(ctx context.Context, c *cluster.Reader, of choice) (string, error) {
	k := c.PolicyKind(of.Group, of.Kind)
	if k == nil || of.Name == "" || k.Namespaced != (of.Namespace != "") || len(content.IsPathSegmentName(of.Name)) > 0 || len(content.IsPathSegmentName(of.Namespace)) > 0 {
		return "", nil
	}
	object, err := c.Get(ctx, k.GVR(), of.Namespace, of.Name)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read a policy: %w", err)
	}
	written := map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], "spec": object["spec"]}
	metadata, kept := map[string]any{}, map[string]any{}
	given, _ := object["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "labels", "annotations"} {
		if v, ok := given[name]; ok {
			metadata[name] = v
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for name, v := range annotations {
			if name != corev1.LastAppliedConfigAnnotation {
				kept[name] = v
			}
		}
		if metadata["annotations"] = kept; len(kept) == 0 {
			delete(metadata, "annotations")
		}
	}
	written["metadata"] = metadata
	out, err := yaml.Marshal(written)
	return string(out), err
}
