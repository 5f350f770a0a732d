package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	kindnames "ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/lint"
	"ephor.invalid/ephor/internal/policy"
	kindschema "ephor.invalid/ephor/internal/schema"
)

// Upgrade lists what an upgrade of Kubernetes changes for the policies of a cluster: kinds and versions that are no longer served, expressions and
// standards that change, and requests that no longer arrive. It changes nothing in the cluster.
func Upgrade(ctx context.Context, c *Cluster, target kubeversion.Minor) *Report {
	s := &state{Cluster: c}
	at := Object{Kind: "APIServer"}
	now, err := kubeversion.Parse(c.Version)
	if err != nil {
		s.unread(at, fmt.Errorf("its version: %w", err))
		return s.report()
	}
	switch {
	case target <= now:
		s.add(Finding{Code: "kubernetes-version", Severity: Note, Object: at, Message: fmt.Sprintf("Kubernetes is %s already, so an upgrade to %s changes nothing", c.Version, target)})
		return s.report()
	case target > kubeversion.Newest:
		s.add(Finding{Code: "kubernetes-version", Severity: Note, Object: at, Message: fmt.Sprintf(
			"this version of Ephor knows the rules of Kubernetes up to %s: of %s it knows only the kinds and versions that are no longer served", kubeversion.Newest, target)})
	}
	if now < staticSince && target >= staticSince {
		s.add(staticNote(at))
	}
	u := upgrade{state: s, now: now, target: target}
	for _, k := range compile.Kinds {
		err := s.each(ctx, k.GVK(), func(o *unstructured.Unstructured) { u.policy(o) })
		s.unread(Object{Kind: k.Kind}, err)
	}
	return s.report()
}

// staticSince is the first version of Kubernetes whose API server loads policies from files without a feature gate.
const staticSince kubeversion.Minor = 37

// staticNote says how policies in files protect Ephor.
func staticNote(at Object) Finding {
	return Finding{
		Code: "static-policies", Severity: Note, Object: at,
		Message:  "the API server loads policies from files that no client of the API can change: examples/static/protect-ephor.yaml keeps others from changing the webhook configurations of Ephor",
		Commands: []string{"ephor convert examples/static/protect-ephor.yaml --static /etc/kubernetes/admission"},
	}
}

// upgrade compares the policies of two versions of Kubernetes.
type upgrade struct {
	*state
	now, target kubeversion.Minor
}

func (u *upgrade) policy(o *unstructured.Unstructured) {
	object := compile.Object{Value: o.Object}
	before, _ := compile.With(object, nil, family.Options{Server: u.now})
	after, _ := compile.With(object, nil, family.Options{Server: u.target})
	if before == nil || after == nil {
		return
	}
	at := objectOf(o)
	if change := compile.Changes(before, after); change != nil {
		u.add(Finding{Code: "meaning-changes", Severity: Stops, Object: at, Message: "it means something else: " + strings.Join(change.What, "; ")})
	}
	var gone, unasked []string
	for _, r := range after.Rules {
		if r.Origin.IsAutogen() {
			continue
		}
		for _, text := range u.removed(r) {
			if !slices.Contains(gone, text) {
				gone = append(gone, text)
			}
		}
		if u.now < 37 && u.target >= 37 {
			for _, kind := range lint.VirtualKinds(r) {
				if !slices.Contains(unasked, kind) {
					unasked = append(unasked, kind)
				}
			}
		}
	}
	if len(gone) > 0 {
		u.add(Finding{
			Code: "kind-removed", Severity: Stops, Object: at, Message: "it names what Kubernetes no longer serves: " + strings.Join(gone, ", "),
			Commands: []string{"name a version that is served, or * for all versions, in the policy"},
		})
	}
	if len(unasked) > 0 {
		u.add(Finding{
			Code: "requests-stop", Severity: Stops, Object: at,
			Message: "since Kubernetes 1.37 the API server sends no requests for these kinds to webhooks: " + strings.Join(unasked, ", "),
		})
	}
}

// removed returns the kinds that a rule names in a version that is no longer served after the upgrade.
func (u *upgrade) removed(r *policy.Rule) (out []string) {
	look := func(gvk schema.GroupVersionKind) {
		if since, ok := kindschema.Removed(gvk); ok && since > u.now && since <= u.target {
			out = append(out, fmt.Sprintf("%s (since %s)", gvk.GroupVersion().String()+"/"+gvk.Kind, since))
		}
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		if strings.ContainsAny(t.Group+t.Version, "*?") {
			continue // it selects the other versions, too
		}
		for _, f := range u.named(t) {
			look(f)
		}
	}
	for _, o := range r.Outputs {
		if gv, err := schema.ParseGroupVersion(o.APIVersion); err == nil {
			look(gv.WithKind(o.Kind))
		}
	}
	return out
}

// every are the kinds of Kubernetes in all versions that Ephor knows.
var every = kindschema.New()

// named returns the kinds that a target without wildcards in group and version selects.
func (u *upgrade) named(t *policy.Target) (out []schema.GroupVersionKind) {
	kind := t.Kind
	if kind == "" {
		kind = "*"
	}
	for _, f := range every.Find(t.Group, t.Version, kind, "") {
		if t.Resource == "" || t.Resource == kindnames.Plural(f.Kind) {
			out = append(out, f.GroupVersionKind)
		}
	}
	return out
}
