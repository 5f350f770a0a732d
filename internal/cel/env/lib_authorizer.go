package env

import (
	"context"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"ephor.invalid/ephor/internal/world"
)

var libAuthorizer = &Library{
	Name:  "authorizer",
	Doc:   "Checks of the permissions of the requester: authorizer, and authorizer.requestResource for the resource of the request.",
	Kinds: kindsOf(Native),
	Asks:  true,
	options: func(Declarations) []cel.EnvOption {
		return []cel.EnvOption{
			cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
			cel.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType),
		}
	},
}

// Authorizer answers whether the requester has a right, for the variables authorizer and authorizer.requestResource.
type Authorizer struct {
	Access world.Access
	// The requester.
	Username, UID string
	Groups        []string
	Extra         map[string][]string
	// The resource of the request.
	Resource                     schema.GroupVersionResource
	Subresource, Namespace, Name string
}

// Value returns the value of the variable authorizer.
func (a *Authorizer) Value() any { return library.NewAuthorizerVal(a.user(), a) }

// RequestResource returns the value of the variable authorizer.requestResource.
func (a *Authorizer) RequestResource() any {
	return library.NewResourceAuthorizerVal(a.user(), a, requestResource{a})
}

func (a *Authorizer) user() user.Info {
	return &user.DefaultInfo{Name: a.Username, UID: a.UID, Groups: a.Groups, Extra: a.Extra}
}

// Authorize implements the library's interface. A missing right is reported as "no opinion" and never as a denial,
// because only the API server denies.
func (a *Authorizer) Authorize(ctx context.Context, q authorizer.Attributes) (authorizer.Decision, string, error) {
	who := q.GetUser()
	r := world.AccessRequest{
		Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra(),
		Verb: q.GetVerb(), Group: q.GetAPIGroup(), Version: q.GetAPIVersion(), Resource: q.GetResource(),
		Subresource: q.GetSubresource(), Namespace: q.GetNamespace(), Name: q.GetName(),
	}
	if !q.IsResourceRequest() {
		r = world.AccessRequest{Username: r.Username, UID: r.UID, Groups: r.Groups, Extra: r.Extra, Verb: r.Verb, Path: q.GetPath()}
	}
	allowed, reason, err := a.Access.Allowed(ctx, r)
	if err != nil || !allowed {
		return authorizer.DecisionNoOpinion, reason, err
	}
	return authorizer.DecisionAllow, reason, nil
}

// requestResource returns the resource of the request in the form that the library expects.
type requestResource struct{ a *Authorizer }

func (r requestResource) GetName() string        { return r.a.Name }
func (r requestResource) GetNamespace() string   { return r.a.Namespace }
func (r requestResource) GetSubresource() string { return r.a.Subresource }
func (r requestResource) GetResource() schema.GroupVersionResource {
	return r.a.Resource
}
