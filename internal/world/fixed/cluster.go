package fixed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/apipath"
	kindnames "ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world"
)

// cluster is a simulated cluster: it holds only the given objects. It is filled at its first use.
type cluster struct {
	once    sync.Once
	objects func() ([]map[string]any, error)
	err     error

	kinds   map[string][]map[string]any // objects by apiVersion and kind
	plurals map[string][]string         // apiVersion and plural → kinds
}

func (c *cluster) fill() error {
	c.once.Do(func() {
		c.kinds, c.plurals = map[string][]map[string]any{}, map[string][]string{}
		objects, err := c.objects()
		if err != nil {
			c.err = fmt.Errorf("read the given resources: %w", err)
			return
		}
		defined := definedPlurals(objects)
		seen := map[string]bool{}
		for _, o := range objects {
			apiVersion, kind := text(o["apiVersion"]), text(o["kind"])
			key := apiVersion + " " + kind
			if id := key + " " + namespaceOf(o) + "/" + nameOf(o); seen[id] {
				continue // the first one takes precedence
			} else {
				seen[id] = true
			}
			if len(c.kinds[key]) == 0 {
				plural := defined[groupOf(apiVersion)+" "+kind]
				if plural == "" {
					plural = kindnames.Plural(kind)
				}
				c.plurals[apiVersion+" "+plural] = append(c.plurals[apiVersion+" "+plural], kind)
			}
			c.kinds[key] = append(c.kinds[key], o)
		}
	})
	return c.err
}

// definedPlurals returns the plural names that CustomResourceDefinitions among the objects define.
func definedPlurals(objects []map[string]any) map[string]string {
	out := map[string]string{}
	for _, o := range objects {
		if text(o["kind"]) != "CustomResourceDefinition" {
			continue
		}
		spec, _ := o["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		out[text(spec["group"])+" "+text(names["kind"])] = text(names["plural"])
	}
	return out
}

// NotFoundError is the error for an object that is not among the given ones.
type NotFoundError struct{ Resource, Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s %q not found among the given resources", e.Resource, e.Name)
}

func (c *cluster) get(apiVersion, kind, namespace, name string) (map[string]any, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	for _, o := range c.kinds[apiVersion+" "+kind] {
		if nameOf(o) == name && namespaceOf(o) == namespace {
			return o, nil
		}
	}
	return nil, &NotFoundError{resourceName(apiVersion, kindnames.Plural(kind)), name}
}

// Status makes apierrors.IsNotFound recognize the error, like an answer of a cluster.
func (e *NotFoundError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http404, Message: e.Error()}
}

const http404 = 404

// list returns the objects of the kinds in the namespace (empty: everywhere) that keep accepts.
func (c *cluster) list(apiVersion string, kinds []string, namespace string, keep func(map[string]any) bool) []any {
	items := []any{}
	for _, kind := range kinds {
		for _, o := range c.kinds[apiVersion+" "+kind] {
			if (namespace == "" || namespaceOf(o) == namespace) && keep(o) {
				items = append(items, o)
			}
		}
	}
	return items
}

// assumedNamespace is the default namespace of an object of an unknown kind; a path without a namespace means that the kind is
// cluster-scoped.
const assumedNamespace = "default"

// call is world.API for reading; a POST has no answer, because there is no server.
func (c *cluster) call(_ context.Context, r world.APIRequest) (any, error) {
	p := r.Path
	if r.Method != world.GET || p.Resource == "" || len(p.Subresource) > 0 {
		return nil, fmt.Errorf("without a cluster only the given resources can be read: %w", world.ErrUnavailable)
	}
	if err := c.fill(); err != nil {
		return nil, err
	}
	kinds := c.plurals[p.APIVersion()+" "+p.Resource]
	if p.Name != "" {
		for _, kind := range kinds {
			for _, namespace := range []string{p.Namespace, assumedNamespace} {
				if o, err := c.get(p.APIVersion(), kind, namespace, p.Name); err == nil && (p.Namespace == "" || p.Namespace == namespace) {
					return o, nil
				}
			}
		}
		return nil, &NotFoundError{resourceName(p.APIVersion(), p.Resource), p.Name}
	}
	keep, err := selected(p)
	if err != nil {
		return nil, err
	}
	kind := "List"
	if len(kinds) > 0 {
		kind = kinds[0] + "List"
	}
	return map[string]any{
		"apiVersion": p.APIVersion(), "kind": kind, "metadata": map[string]any{"resourceVersion": ""},
		"items": c.list(p.APIVersion(), kinds, p.Namespace, keep),
	}, nil
}

// selected returns a filter for the selectors in the query.
func selected(p apipath.Path) (func(map[string]any) bool, error) {
	byLabel, err := labels.Parse(p.Query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(p.Query.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	for _, r := range byField.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return nil, fmt.Errorf("%q is not a known field selector: only metadata.name and metadata.namespace are", r.Field)
		}
	}
	return func(o map[string]any) bool {
		return byLabel.Matches(labels.Set(labelsOf(o))) &&
			byField.Matches(fields.Set{"metadata.name": nameOf(o), "metadata.namespace": namespaceOf(o)})
	}, nil
}

// object is world.Objects.
func (c *cluster) object(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	return c.get(r.APIVersion, r.Kind.Kind, r.Namespace, r.Name)
}

// query is world.Lists.
func (c *cluster) query(_ context.Context, q world.Query) ([]map[string]any, error) {
	parsed, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, err
	}
	if err := c.fill(); err != nil {
		return nil, err
	}
	var out []map[string]any
	wanted := func(o map[string]any) bool {
		return parsed.Matches(labels.Set(labelsOf(o))) && (q.Name == "" || nameOf(o) == q.Name)
	}
	for _, o := range c.list(q.APIVersion, []string{q.Kind}, q.Namespace, wanted) {
		out = append(out, o.(map[string]any))
	}
	return out, nil
}

// find returns the kinds of the given objects that the wildcards match.
func (c *cluster) find(_ context.Context, wanted world.Kind) ([]world.Kind, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	var out []world.Kind
	for key := range c.kinds {
		v, k, _ := strings.Cut(key, " ")
		if wildcard.Match(wanted.APIVersion, v) && wildcard.Match(wanted.Kind, k) {
			out = append(out, world.Kind{APIVersion: v, Kind: k})
		}
	}
	slices.SortFunc(out, func(a, b world.Kind) int {
		return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// served returns the resources of the given objects that the wildcards match.
func (c *cluster) served(_ context.Context, r world.ResourceRequest) ([]world.Resource, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	var out []world.Resource
	for key, kinds := range c.plurals {
		apiVersion, name, _ := strings.Cut(key, " ")
		of := groupOf(apiVersion)
		if !wildcard.Match(r.Group, of) || !wildcard.Match(r.Version, strings.TrimPrefix(apiVersion, of+"/")) || !wildcard.Match(r.Plural, name) {
			continue
		}
		for _, kind := range kinds {
			out = append(out, world.Resource{Kind: world.Kind{APIVersion: apiVersion, Kind: kind}, Plural: name})
		}
	}
	slices.SortFunc(out, func(a, b world.Resource) int {
		return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind.Kind, b.Kind.Kind))
	})
	return out, nil
}

// resource returns the plural name of a kind of the given objects.
func (c *cluster) resource(_ context.Context, k world.Kind) (string, error) {
	if err := c.fill(); err != nil {
		return "", err
	}
	for key, kinds := range c.plurals {
		if of, name, _ := strings.Cut(key, " "); of == k.APIVersion && slices.Contains(kinds, k.Kind) {
			return name, nil
		}
	}
	return "", &NotFoundError{"kind", k.APIVersion + " " + k.Kind}
}

func resourceName(apiVersion, plural string) string {
	if group := groupOf(apiVersion); group != "" {
		return plural + "." + group
	}
	return plural
}

func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func text(v any) string { s, _ := v.(string); return s }

func metadata(o map[string]any) map[string]any { m, _ := o["metadata"].(map[string]any); return m }

func nameOf(o map[string]any) string      { return text(metadata(o)["name"]) }
func namespaceOf(o map[string]any) string { return text(metadata(o)["namespace"]) }

func labelsOf(o map[string]any) map[string]string {
	in, _ := metadata(o)["labels"].(map[string]any)
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = text(v)
	}
	return out
}
