package env

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

var (
	gvrType      = cel.ObjectType("policies.GroupVersionResource")
	resourceType = cel.MapType(cel.StringType, cel.AnyType)
	labelsType   = cel.MapType(cel.StringType, cel.StringType)
	objectArg    = cel.MapType(cel.StringType, cel.DynType)
)

func queryCost([]ref.Val) int { return price.QuerySteps }

// libResource queries world.Resources, which is restricted to the policy's Reach.
var libResource = &Library{
	Name: LibraryResource,
	Doc: "Objects of the cluster, read with the permissions of the process. A resource is named by its plural, followed by a slash and the subresource if there is one. " +
		"In namespaced policies the functions have no namespace argument, and access only the namespace of the policy.",
	Kinds: everyPolicy | checks,
	Asks:  true,
	Functions: []Function{
		{
			Names: []string{"resource.get", "resource.Get"},
			Overloads: []Overload{
				onCluster(resourceType, cel.StringType, cel.StringType, cel.StringType, cel.StringType), onCluster(resourceType, gvrType, cel.StringType, cel.StringType),
				inNamespace(resourceType, cel.StringType, cel.StringType, cel.StringType), inNamespace(resourceType, gvrType, cel.StringType),
			},
			Doc:     "Returns an object, or null if it does not exist. The arguments are apiVersion and resource, or the result of resource.toGVR; the namespace, which is empty for cluster-scoped objects; and the name.",
			Example: "resource.get('v1', 'configmaps', 'default', 'settings')",
			Result:  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"}}`,
			cost:    queryCost, call: getResource,
		},
		{
			Names: []string{"resource.list", "resource.List"},
			Overloads: []Overload{
				onCluster(resourceType, cel.StringType, cel.StringType, cel.StringType), onCluster(resourceType, gvrType, cel.StringType),
				onCluster(resourceType, cel.StringType, cel.StringType, cel.StringType, labelsType), onCluster(resourceType, gvrType, cel.StringType, labelsType),
				inNamespace(resourceType, cel.StringType, cel.StringType), inNamespace(resourceType, gvrType),
				inNamespace(resourceType, cel.StringType, cel.StringType, labelsType), inNamespace(resourceType, gvrType, labelsType),
			},
			Doc:     "Returns a list with the objects in its field items. An empty namespace means all namespaces. With labels, it contains only objects that have all of them.",
			Example: "dyn(resource.list('v1', 'configmaps', 'default').items).size()",
			Result:  `1`,
			cost:    queryCost, call: listResources,
		},
		{
			Names: []string{"resource.post", "resource.Post"},
			Overloads: []Overload{
				onCluster(resourceType, cel.StringType, cel.StringType, cel.StringType, objectArg), onCluster(resourceType, cel.StringType, cel.StringType, objectArg),
				inNamespace(resourceType, cel.StringType, cel.StringType, objectArg),
			},
			Doc:     "Creates an object and returns the response, for example that of a SubjectAccessReview.",
			Example: "resource.post('authorization.k8s.io/v1', 'subjectaccessreviews', {'spec': {'user': 'alice'}})",
			Result:  `{"kind":"SubjectAccessReview","status":{"allowed":true}}`,
			cost:    queryCost, call: postResource,
		},
		{
			Names:     []string{"resource.toGVR", "resource.ToGVR"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType, cel.StringType}, Result: gvrType}},
			Doc:       "Returns the group, version and resource of a kind, for use as an argument of the other functions.",
			Example:   "resource.toGVR('v1', 'ConfigMap')",
			Result:    `{"Group":"","Resource":"configmaps","Version":"v1"}`,
			cost:      queryCost, call: resourceOfKind,
		},
	},
}

func onCluster(result *cel.Type, args ...*cel.Type) Overload {
	return Overload{Args: args, Result: result, cluster: true}
}

func inNamespace(result *cel.Type, args ...*cel.Type) Overload {
	return Overload{Args: args, Result: result, namespaced: true}
}

// target takes the resource and, in cluster-wide policies, the namespace from the first arguments. rest are the other arguments.
func (e *Scope) target(args []ref.Val) (p apipath.Path, rest []ref.Val, err error) {
	var apiVersion, plural string
	if v, ok := args[0].(gvr); ok {
		apiVersion, plural, rest = v.apiVersion, v.resource, args[1:]
	} else {
		apiVersion, plural, rest = values.Text(args[0]), values.Text(args[1]), args[2:]
	}
	namespace := e.namespace()
	if !e.Namespaced && len(rest) > 0 {
		if s, ok := rest[0].(types.String); ok {
			namespace, rest = string(s), rest[1:]
		}
	}
	name := ""
	if len(rest) > 0 {
		if s, ok := rest[0].(types.String); ok {
			name, rest = string(s), rest[1:]
			if name == "" {
				return p, nil, errors.New("resource name may not be empty")
			}
		}
	}
	p, err = resourcePath(apiVersion, namespace, plural, name)
	return p, rest, err
}

// resourcePath builds the path from its text, so that every part is checked.
func resourcePath(apiVersion, namespace, plural, name string) (apipath.Path, error) {
	plural, sub, _ := strings.Cut(plural, "/")
	root := "/apis/"
	if !strings.Contains(apiVersion, "/") {
		root = "/api/"
	}
	group, version, _ := strings.Cut(apiVersion, "/")
	parts := []string{group}
	if version != "" {
		parts = append(parts, version)
	}
	if namespace != "" && !(plural == "namespaces" && root == "/api/") {
		parts = append(parts, "namespaces", namespace)
	}
	parts = append(parts, plural)
	if name != "" {
		parts = append(parts, name)
	}
	if sub != "" {
		parts = append(parts, sub)
	}
	for i, s := range parts {
		parts[i] = url.PathEscape(s)
	}
	p, err := apipath.Parse(root + strings.Join(parts, "/"))
	if err == nil && (p.Resource != plural || p.Name != name || p.APIVersion() != apiVersion) {
		err = &apipath.Error{Path: p.String(), Reason: "it is not a resource"}
	}
	return p, err
}

func (e *Scope) resources() (world.API, error) {
	if e.world().Resources == nil {
		return nil, fmt.Errorf("resources are %w", world.ErrUnavailable)
	}
	return e.world().Resources, nil
}

func (e *Scope) callResource(method string, p apipath.Path, body any) (any, error) {
	api, err := e.resources()
	if err != nil {
		return nil, err
	}
	return api(e.Context(), world.APIRequest{Method: method, Path: p, Body: body})
}

func getResource(e *Scope, args []ref.Val) ref.Val {
	p, _, err := e.target(args)
	var v any
	if err == nil {
		v, err = e.callResource(world.GET, p, nil)
	}
	switch {
	case apierrors.IsNotFound(err):
		return types.NullValue
	case err != nil:
		return e.unanswered("failed to get resource", err)
	}
	return e.answer(v)
}

func listResources(e *Scope, args []ref.Val) ref.Val {
	p, rest, err := e.target(args)
	if err == nil && len(rest) > 0 {
		p.Query = url.Values{"labelSelector": {labels.Set(textMap(rest[0])).String()}}
	}
	var v any
	if err == nil {
		v, err = e.callResource(world.GET, p, nil)
	}
	if err != nil {
		return e.unanswered("failed to list resource", err)
	}
	return e.answer(withKinds(v))
}

// withKinds returns a list whose items have an apiVersion and a kind. API servers omit these for built-in kinds, and clients, such as
// Kyverno's, add them.
func withKinds(v any) any {
	list, _ := v.(map[string]any)
	items, _ := list["items"].([]any)
	listKind, _ := list["kind"].(string)
	kind, ok := strings.CutSuffix(listKind, "List")
	if !ok || kind == "" || len(items) == 0 {
		return v
	}
	named := make([]any, len(items))
	for i, item := range items {
		m, ok := item.(map[string]any)
		if named[i] = item; !ok || m["kind"] != nil || m["apiVersion"] != nil {
			continue
		}
		object := make(map[string]any, len(m)+2)
		maps.Copy(object, m)
		object["apiVersion"], object["kind"] = list["apiVersion"], kind
		named[i] = object
	}
	out := maps.Clone(list)
	out["items"] = named
	return out
}

func postResource(e *Scope, args []ref.Val) ref.Val {
	data := args[len(args)-1]
	p, _, err := e.target(args[:len(args)-1])
	var v any
	if err == nil {
		if v, err = values.Decode(data, values.MaxNesting); err == nil {
			v, err = e.callResource(world.POST, p, v)
		}
	}
	switch {
	case errors.Is(err, world.ErrUnavailable):
		return types.WrapErr(errNotImplemented)
	case err != nil:
		return e.unanswered("failed to create resource", err)
	}
	return e.answer(v)
}

// errNotImplemented is Kyverno's text for a query that only a cluster can answer.
var errNotImplemented = fmt.Errorf("internal error: not implemented%w", price.Quietly(world.ErrUnavailable))

func textMap(v ref.Val) map[string]string {
	out := map[string]string{}
	m, ok := v.(traits.Mapper)
	if !ok {
		return out
	}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		out[values.Text(key)] = values.Text(m.Get(key))
	}
	return out
}

func resourceOfKind(e *Scope, args []ref.Val) ref.Val {
	if e.world().Kinds.Resource == nil {
		return types.WrapErr(errNotImplemented)
	}
	apiVersion, kind := values.Text(args[0]), values.Text(args[1])
	plural, err := e.world().Kinds.Resource(e.Context(), world.Kind{APIVersion: apiVersion, Kind: kind})
	if err != nil {
		return e.unanswered("failed to map kind to resource", err)
	}
	return gvr{apiVersion, plural}
}

// gvr is a resource with its group and version.
type gvr struct{ apiVersion, resource string }

// ConvertToNative implements the library's interface.
func (g gvr) ConvertToNative(t reflect.Type) (any, error) {
	return values.Opaque{Kind: gvrType}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (g gvr) ConvertToType(t ref.Type) ref.Val { return values.Opaque{Kind: gvrType}.Convert(g, t) }

// Equal implements the library's interface.
func (g gvr) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(g) == other) }

// Type implements the library's interface.
func (g gvr) Type() ref.Type { return gvrType }

// Value implements the library's interface.
func (g gvr) Value() any { return g.Document() }

func (g gvr) Document() any {
	group, version, ok := strings.Cut(g.apiVersion, "/")
	if !ok {
		group, version = "", g.apiVersion
	}
	return map[string]any{"Group": group, "Version": version, "Resource": g.resource}
}
