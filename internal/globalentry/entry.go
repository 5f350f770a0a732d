package globalentry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Group and Kind identify the objects of this package.
const (
	Group = "kyverno.io"
	Kind  = "GlobalContextEntry"
)

// Versions are the served versions, which differ only in their status; the first one is the stored version.
var Versions = []string{"v2beta1", "v2", "v2alpha1"}

// Default values of calls.
const (
	DefaultRefresh = 10 * time.Minute
	DefaultRetries = 3
)

// Entry is a compiled entry. It is immutable.
type Entry struct {
	Name string
	// Exactly one of the two is set, unless the entry has mistakes.
	Resource *Resource
	Call     *Call

	projections map[string]*jmespath.Expr
	Diags       diag.List
}

// Resource identifies a resource by its plural name, as in API paths.
type Resource struct {
	APIVersion, Resource string
	Namespace            string // empty for all namespaces
}

// Call is a call that is repeated at an interval: to an API path or to a service.
type Call struct {
	API     *world.APIRequest     // nil for services
	Service *world.ServiceRequest // nil for paths
	Refresh time.Duration
	Retries int
}

// OfSecrets reports whether the entry holds data of Secrets.
func (e *Entry) OfSecrets() bool {
	switch {
	case e.Resource != nil:
		return e.Resource.APIVersion == "v1" && e.Resource.Resource == "secrets"
	case e.Call != nil && e.Call.API != nil:
		return e.Call.API.Key().Secrets
	}
	return false
}

// Owns reports whether the object is a GlobalContextEntry, whatever its version.
func Owns(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	return ok && group == Group && kind == Kind
}

// Compile decodes, checks and compiles an object that Owns accepts. It always returns an entry, whose Diags are the
// returned diagnostics.
func Compile(object map[string]any) (*Entry, diag.List) {
	e := &kyvernov2beta1.GlobalContextEntry{}
	var diags diag.List
	for _, d := range strict.Decode(object, e) {
		if d.Path != "status" && !strings.HasPrefix(d.Path, "status.") {
			diags.Add(d)
		}
	}
	if _, version, _ := strings.Cut(e.APIVersion, "/"); !slices.Contains(Versions, version) {
		diags.Errorf("apiVersion", "no version %q of %s in group %s", version, Kind, Group)
		diags.Hint("served versions are %s", strings.Join(Versions, ", "))
	}
	diags.Add(check(e)...)
	out := &Entry{Name: e.Name, projections: map[string]*jmespath.Expr{}}
	if r := e.Spec.KubernetesResource; r != nil {
		out.Resource = &Resource{APIVersion: r.Version, Resource: r.Resource, Namespace: r.Namespace}
		if r.Group != "" {
			out.Resource.APIVersion = r.Group + "/" + r.Version
		}
	}
	if c := e.Spec.APICall; c != nil {
		out.Call = compileCall(c, &diags)
	}
	allowance := &compilecost.Allowance{}
	for i, p := range e.Spec.Projections {
		expr, err := jmespath.CompileWithin(allowance, p.JMESPath, jmespath.Quoting{})
		if err != nil && p.JMESPath != "" {
			diags.Errorf(fmt.Sprintf("spec.projections[%d].jmesPath", i), "failed to parse JMESPath %s: %v", p.JMESPath, err)
		}
		out.projections[p.Name] = expr
	}
	out.Diags = diags
	return out, diags
}

func compileCall(c *kyvernov2beta1.ExternalAPICall, diags *diag.List) *Call {
	out := &Call{Refresh: DefaultRefresh, Retries: DefaultRetries}
	if c.RefreshInterval != nil {
		out.Refresh = c.RefreshInterval.Duration
	}
	if c.RetryLimit > 0 {
		out.Retries = c.RetryLimit
	}
	method := string(c.Method)
	if method == "" {
		method = world.GET
	}
	var body any
	if method == world.POST {
		fields := map[string]any{}
		for _, d := range c.Data {
			if d.Value != nil {
				fields[d.Key], _ = value.DecodeJSON(d.Value.Raw) // it was decoded from JSON, so this cannot fail
			}
		}
		body = fields
	}
	switch {
	case c.URLPath != "":
		path, err := apipath.Parse(c.URLPath)
		if err != nil {
			diags.Errorf("spec.apiCall.urlPath", "%v", err)
			diags.Hint("an entry is for all policies: its path has no variables")
		}
		out.API = &world.APIRequest{Method: method, Path: path, Body: body}
	case c.Service != nil:
		out.Service = &world.ServiceRequest{Method: method, URL: c.Service.URL, CABundle: c.Service.CABundle, Body: body}
		for _, h := range c.Service.Headers {
			out.Service.Headers = append(out.Service.Headers, world.Header{Name: h.Key, Value: h.Value})
		}
	}
	return out
}

// Project returns the data of a reference to the entry: all data for the empty name, otherwise the result of the projection with
// that name.
func (e *Entry) Project(ctx context.Context, name string, data any) (any, error) {
	if e.Diags.HasErrors() {
		return nil, errors.New(e.Diags.Errors()[0].Summary)
	}
	if name == "" {
		return data, nil
	}
	expr, ok := e.projections[name]
	if !ok {
		return nil, &world.NoProjectionError{Entry: e.Name, Projection: name}
	}
	return expr.Search(&jmespath.Env{Meter: budget.New(ctx, budget.DefaultSteps, budget.DefaultBytes)}, data)
}
