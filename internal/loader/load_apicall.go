package loader

import (
	"errors"
	"fmt"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/apipath"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/world"
)

var apiCall = Loader{
	Field: "apiCall",
	Doc: "The JSON response of the Kubernetes API for a path, or of an HTTP service for a URL. If the call fails, the default is used. " +
		"A namespaced policy can only read paths of its own namespace, and cannot call services.",
	Examples: []Example{
		{"The number of Pods in the namespace, from the API server", `name: pods
apiCall:
  urlPath: /api/v1/namespaces/{{ request.namespace }}/pods
  jmesPath: items | length(@)
  default: 0
`},
		{"Whether the requester may delete Pods: an object that is sent to the API server", `name: mayDelete
apiCall:
  urlPath: /apis/authorization.k8s.io/v1/subjectaccessreviews
  method: POST
  data:
  - key: kind
    value: SubjectAccessReview
  - key: apiVersion
    value: authorization.k8s.io/v1
  - key: spec
    value:
      user: "{{ request.userInfo.username }}"
      resourceAttributes: {verb: delete, resource: pods, namespace: "{{ request.namespace }}"}
  jmesPath: status.allowed
`},
		{"The answer of a service of your own, which gets the images in a POST and is trusted by its certificate authority", `name: verdict
apiCall:
  method: POST
  data:
  - key: images
    value: "{{ request.object.spec.containers[].image }}"
  service:
    url: https://scanner.platform.svc/check?namespace={{ request.namespace }}
    headers:
    - key: X-Team
      value: "{{ request.object.metadata.labels.team || 'none' }}"
    caBundle: |
      -----BEGIN CERTIFICATE-----
      MIIBdzCCAR2gAwIBAgIUPCKmB1…
      -----END CERTIFICATE-----
  jmesPath: allowed
  default: false
`},
	},
	Owns:    func(e *kyvernov1.ContextEntry) bool { return e.APICall != nil },
	compile: compileAPICall,
}

// call is a compiled apiCall; missing parts are nil.
type call struct {
	entry  string
	reach  world.Reach
	method string

	path    *urlPath
	service *service
	data    []field
	query   *query
	def     *template.Template
}

// field is one field of the body of a POST.
type field struct {
	key   string
	value *template.Template
}

func compileAPICall(e *kyvernov1.ContextEntry, in input) compiled {
	c := compiled{allowance: in.allowance}
	c.reads.Needs.Lookups = true
	a := e.APICall
	x := &call{entry: e.Name, reach: in.reach()}
	x.compile(&c, &a.APICall, in)
	x.query = c.query(e.Name, a.JMESPath, in.path+".jmesPath")
	x.def = c.template(a.Default, in.path+".default")
	if !c.diags.HasErrors() {
		c.load = x.load
	}
	return c
}

// compile compiles the call. It adds mistakes to c.
func (x *call) compile(c *compiled, a *kyvernov1.APICall, in input) {
	switch x.method = string(a.Method); x.method {
	case "":
		x.method = world.GET
	case world.GET, world.POST:
	default:
		c.diags.Errorf(in.path+".method", "invalid request type %s for APICall %s", a.Method, x.entry)
		c.diags.Hint("methods are GET and POST")
	}
	if len(a.Data) > 0 && x.method != world.POST {
		c.diags.Errorf(in.path+".method", "a POST method is required to use data")
		c.diags.Hint("add `method: POST`, or remove data")
	}
	switch {
	case a.URLPath != "" && a.Service != nil:
		c.diags.Errorf(in.path+".urlPath", "a URLPath cannot be used for service API calls")
		c.diags.Hint("keep urlPath for the Kubernetes API, service for anything else")
	case a.URLPath != "":
		x.path = c.urlPath(a.URLPath, in.path+".urlPath")
		x.checkPath(c, in.path+".urlPath")
	case a.Service != nil:
		x.service = compileService(c, a.Service, in, x.entry)
	default:
		c.diags.Errorf(in.path, "missing service for APICall %s", x.entry)
		c.diags.Hint("add urlPath or service")
	}
	for i, d := range a.Data {
		at := in.path + ".data[" + strconv.Itoa(i) + "]"
		v := c.template(d.Value, at+".value")
		if d.Key == "" || v == nil {
			c.diags.Errorf(at, "data needs a key and a value")
			c.diags.Hint("write both, such as {key: image, value: \"{{ request.object.spec.containers[0].image }}\"}")
			continue
		}
		x.data = append(x.data, field{d.Key, v})
	}
}

// checkPath reports the mistakes of a path without variables when the policy is compiled.
func (x *call) checkPath(c *compiled, at string) {
	text, static := x.path.static()
	if !static {
		return
	}
	p, err := apipath.Parse(text)
	if err == nil {
		err = x.reach.CheckAPI(x.method, p)
	}
	if e := (*apipath.Error)(nil); errors.As(err, &e) && e.Unserved {
		c.diags.Warnf(at, "%v", err)
		c.diags.Hint("write the plural name of the resource, as `kubectl api-resources` shows it: until then each evaluation ends in an error")
		return
	}
	if err != nil {
		c.diags.Errorf(at, "%v", err)
	}
}

func (x *call) load(before *scope.Scope) (any, error) {
	data, err := x.fetch(before)
	if err == nil {
		data, err = x.query.apply(before, data)
	}
	if budget.Over(err) || x.def == nil || err == nil && data != nil {
		return data, err
	}
	v, err := x.def.Eval(before.QueryEnv(), before)
	if err != nil {
		return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", x.entry, err)
	}
	return v, nil
}

func (x *call) fetch(before *scope.Scope) (any, error) {
	body, err := x.body(before)
	if err != nil {
		return nil, err
	}
	if x.service != nil {
		return x.service.fetch(before, x.entry, x.method, body)
	}
	text, err := x.path.eval(before.QueryEnv(), before)
	if err != nil {
		return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", x.entry, err)
	}
	data, err := x.send(before, text, body)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch data for APICall: failed to %s resource with raw url: %s: %w", x.method, text, err)
	}
	return data, nil
}

// send parses the path and sends the request; see package apipath.
func (x *call) send(before *scope.Scope, text string, body any) (any, error) {
	p, err := apipath.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := x.reach.CheckAPI(x.method, p); err != nil {
		return nil, err
	}
	api := before.Env.World.API
	if api == nil {
		return nil, fmt.Errorf("the Kubernetes API is %w", world.ErrUnavailable)
	}
	return api(before.Env.Meter.Context(), world.APIRequest{Method: x.method, Path: p, Body: body})
}

func (x *call) body(before *scope.Scope) (any, error) {
	if x.method != world.POST {
		return nil, nil
	}
	body := make(map[string]any, len(x.data))
	for _, f := range x.data {
		v, err := f.value.Eval(before.QueryEnv(), before)
		if err != nil {
			return nil, fmt.Errorf("failed to substitute variables in context entry %s: %w", x.entry, err)
		}
		body[f.key] = v
	}
	return body, nil
}

// reach returns the data that the entry's policy may read.
func (in input) reach() world.Reach {
	if in.policyNamespace == "" {
		return world.Cluster()
	}
	return world.InNamespace(in.policyNamespace)
}
