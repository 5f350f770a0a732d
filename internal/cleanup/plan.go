package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world"
)

// Resources resolves the targets of policies.
type Resources interface {
	discovery.Resources
	// Unlisted returns an error if what Find returns for a wildcard may not be complete.
	Unlisted(policy.Target) error
}

// Executor plans and executes runs of policies. All fields but Log may be shared.
type Executor struct {
	Resources Resources
	Objects   dynamic.Interface
	// Root creates the world that conditions and context entries read.
	Root world.Root
	// NamespaceLabels returns the labels of a namespace; an error if they are unknown.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	Settings        func() *settings.Settings
	// Protect excludes objects with the label managed-by: kyverno.
	Protect bool
	// Eval evaluates a policy; nil for engine.Eval.
	Eval func(context.Context, engine.Input) policy.Outcome
	Log  *slog.Logger
}

// Object is an object that a policy would delete, in the version on which the decision is based.
type Object struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Namespace is empty for cluster-scoped objects.
	Namespace, Name      string
	UID, ResourceVersion string
	// Propagation is the deletion propagation for dependents: Foreground, Background or Orphan; empty for the default.
	Propagation string
}

// String returns Kind/namespace/name, as events name objects.
func (o Object) String() string { return o.Kind.Kind + "/" + o.Namespace + "/" + o.Name }

// counted returns the name under which the metrics of a family count the object.
func (o *Object) counted(of *family.Run) string {
	if of.CountsResources {
		return o.Resource.Resource
	}
	return o.Kind.Kind
}

// Failure is an object, or a whole kind, that could not be evaluated or deleted.
type Failure struct {
	// Object has no name if Err concerns a whole kind.
	Object Object
	Err    error
	// Later: a retry may soon succeed. For a forbidden or unserved kind, a user must act first.
	Later bool
}

// Plan describes what a run would do.
type Plan struct {
	Delete   []Object
	Failures []Failure
	// Looked is the number of objects that were evaluated.
	Looked int
}

// pageSize bounds the number of objects in one page of a list.
const pageSize = 500

// labelManaged, with the value kyverno, marks objects that our controllers created.
const labelManaged = "app.kubernetes.io/managed-by"

// Plan evaluates every object that the policy may match. An error means that there is no plan; the plan itself lists kinds that could not
// be found or listed, and objects that could not be evaluated.
func (e *Executor) Plan(ctx context.Context, p *policy.Program) (*Plan, error) {
	out := &Plan{}
	found := e.resources(p, out)
	planned := map[string]bool{} // by UID, since some objects are served in more than one group or version
	for i := range found {
		r := &found[i]
		names := r.names
		if names == nil {
			names = []string{""}
		}
		for _, name := range names {
			if err := e.list(ctx, p, r, name, planned, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// listed is a resource to list.
type listed struct {
	discovery.Resource
	wild bool // selected by a wildcard
	// names are the names of the objects to list; nil for all objects.
	names []string
	// labels is the label selector of the list; empty for none.
	labels string
}

func (r *listed) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource.Resource}
}

func (r *listed) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// resources returns the resources that a policy names, without duplicates. If the policy names no version, it uses the first one that the
// API server lists.
func (e *Executor) resources(p *policy.Program, out *Plan) []listed {
	var all []listed
	have := map[schema.GroupVersionResource]int{} // the index in all, plus one
	var absent unserved
	for _, rule := range p.Rules {
		for _, t := range rule.Targets {
			if !t.Main() {
				continue // a subresource is not an object
			}
			found, err := e.Resources.Find(t.WithoutSubresource())
			if err == nil {
				err = e.Resources.Unlisted(t)
			}
			if err != nil {
				out.Failures = append(out.Failures, Failure{Object: objectOf(&t), Err: fmt.Errorf("find %s: %w", t.String(), err), Later: true})
			} else {
				absent.add(&t, len(found))
			}
			for _, r := range found {
				key := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
				if wildcard.Has(t.Version) {
					key.Version = ""
				}
				if p.Namespace != "" && !r.Namespaced {
					continue
				}
				names := t.OnlyNames()
				if i := have[key]; i > 0 {
					all[i-1].add(names, rule.Labels)
					continue
				}
				all = append(all, listed{r, t.Wild(), slices.Clone(names), rule.Labels})
				have[key] = len(all)
			}
		}
	}
	out.Failures = append(out.Failures, absent.failures()...)
	return all
}

// add adds objects to list: those with the names (nil for all) that match the selector.
func (r *listed) add(names []string, labels string) {
	if r.labels != labels {
		r.labels = ""
	}
	if r.names == nil || names == nil {
		r.names = nil
		return
	}
	for _, name := range names {
		if !slices.Contains(r.names, name) {
			r.names = append(r.names, name)
		}
	}
}

// restarts is the number of times that a list starts again after its continue token expired.
const restarts = 3

// list evaluates the objects of one resource, page by page: those with the name, or all if it is empty. The right to list may be limited to
// names.
func (e *Executor) list(ctx context.Context, p *policy.Program, r *listed, name string, planned map[string]bool, out *Plan) error {
	evaluated := map[string]bool{}
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: r.labels}
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	for tries := 0; ; tries++ {
		_, err := controller.Pages(ctx, options, e.client(r.gvr(), p.Namespace).List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				item := &page.Items[i]
				if uid := string(item.GetUID()); !evaluated[uid] && !planned[uid] {
					evaluated[uid] = true
					planned[uid] = e.evaluate(ctx, p, r.gvr(), item, out)
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
			return nil
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsResourceExpired(err) && tries < restarts:
			continue // planned prevents a second evaluation of objects
		case r.wild && (apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)):
			return nil // reviews and similar kinds, which cannot be listed
		default:
			out.Failures = append(out.Failures, Failure{
				Object: Object{Resource: r.gvr(), Kind: r.gvk(), Namespace: p.Namespace},
				Err:    fmt.Errorf("list %s: %w", r.gvr().GroupResource(), err), Later: !settled(err),
			})
			return nil
		}
	}
}

// settled reports whether the API server will give the same answer until a user changes something.
func settled(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

func (e *Executor) client(r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return e.Objects.Resource(r)
	}
	return e.Objects.Resource(r).Namespace(namespace)
}

// evaluate adds the object to the plan if the policy selects it, and reports whether it did.
func (e *Executor) evaluate(ctx context.Context, p *policy.Program, r schema.GroupVersionResource, item *unstructured.Unstructured, out *Plan) bool {
	o := Object{
		Resource: r, Kind: item.GroupVersionKind(), Namespace: item.GetNamespace(), Name: item.GetName(),
		UID: string(item.GetUID()), ResourceVersion: item.GetResourceVersion(),
	}
	conf := e.Settings()
	if item.GetDeletionTimestamp() != nil || !p.Reach().Allows(o.Namespace) || conf.Spared(o.Kind, o.Namespace, o.Name) ||
		e.Protect && item.GetLabels()[labelManaged] == "kyverno" {
		return false
	}
	out.Looked++
	eval := e.Eval
	if eval == nil {
		eval = engine.Eval
	}
	outcome := eval(ctx, engine.Input{
		Selections: []policy.Selection{{Program: p, Rules: p.Rules}}, Request: e.request(item, &o, conf), Stages: policy.StageDelete, Root: e.Root,
	})
	for _, w := range outcome.Work {
		if w.Kind == policy.WorkDelete {
			o.Propagation = w.Propagation
			out.Delete = append(out.Delete, o)
			return true
		}
	}
	for _, result := range outcome.Results {
		if result.Status == policy.StatusError {
			out.Failures = append(out.Failures, Failure{Object: o, Err: errors.New(strings.TrimSpace(result.Message)), Later: true})
			break
		}
	}
	return false
}

// request returns the request for the evaluation of the object. It has no requester, and its operation does not matter.
func (e *Executor) request(item *unstructured.Unstructured, o *Object, s *settings.Settings) *policy.Request {
	return &policy.Request{Review: policy.Review{
		Origin: policy.FromScan, Operation: policy.Create, GVK: o.Kind, RequestGVK: o.Kind, GVR: o.Resource,
		Namespace: o.Namespace, Name: o.Name, Object: value.Of(item.Object), Conf: policy.ConfOf(s),
		ResolveNamespace: func(ctx context.Context) (map[string]string, error) { return e.NamespaceLabels(ctx, o.Namespace) },
	}}
}
