package globalentry

import (
	"fmt"

	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/world"
)

// These texts are copied verbatim from Kyverno.
const (
	textEither         = "A global context entry should either have KubernetesResource or APICall"
	textResource       = "A Resource entry requires a %s"
	textRefresh        = "A Resource entry requires a refresh interval greater than 0 seconds"
	textServiceOrPath  = "An External API call should either have Service or URLPath"
	textDataMethod     = "An External API call with data should have method as POST"
	textProjectionName = "A projection entry requires a name"
	textProjectionSame = "A projection entry requires a name different from the global context entry name"
	textProjectionPath = "A projection entry requires a JMESPath"
)

// check returns all mistakes of the author.
func check(e *kyvernov2beta1.GlobalContextEntry) diag.List {
	var l diag.List
	if e.Name == "" {
		l.Required("metadata.name", "an entry needs a name")
	}
	if (e.Spec.KubernetesResource == nil) == (e.Spec.APICall == nil) {
		l.Errorf("spec", "%s", textEither)
	}
	if r := e.Spec.KubernetesResource; r != nil {
		checkResource(&l, r)
	}
	if c := e.Spec.APICall; c != nil {
		checkCall(&l, c)
	}
	for i, p := range e.Spec.Projections {
		path := fmt.Sprintf("spec.projections[%d]", i)
		switch p.Name {
		case "":
			l.Errorf(path+".name", "%s", textProjectionName)
		case e.Name:
			l.Errorf(path+".name", "%s", textProjectionSame)
		}
		if p.JMESPath == "" {
			l.Errorf(path+".jmesPath", "%s", textProjectionPath)
		}
	}
	return l
}

func checkResource(l *diag.List, r *kyvernov2beta1.KubernetesResource) {
	const path = "spec.kubernetesResource"
	if r.Group == "" && r.Version != "v1" && r.Version != "" {
		l.Errorf(path+".group", textResource, "group")
		l.Hint("only the core group is empty, and its version is v1")
	}
	if r.Version == "" {
		l.Errorf(path+".version", textResource, "version")
	}
	if r.Resource == "" {
		l.Errorf(path+".resource", textResource, "resource")
		l.Hint("it is the name in paths: pods, deployments")
	}
}

func checkCall(l *diag.List, c *kyvernov2beta1.ExternalAPICall) {
	const path = "spec.apiCall"
	if c.RefreshInterval != nil && c.RefreshInterval.Duration <= 0 {
		l.Errorf(path+".refreshInterval", "%s", textRefresh)
	}
	if c.RetryLimit < 0 {
		l.Invalid(path+".retryLimit", c.RetryLimit, "should be greater than or equal to 1")
	}
	if (c.Service == nil) == (c.URLPath == "") {
		l.Errorf(path, "%s", textServiceOrPath)
	}
	if c.Service != nil && c.Service.URL == "" {
		l.Required(path+".service.url", "a service has a URL")
	}
	switch c.Method {
	case "", world.GET:
		if len(c.Data) > 0 {
			l.Errorf(path+".method", "%s", textDataMethod)
		}
	case world.POST:
	default:
		l.Unsupported(path+".method", string(c.Method), []string{world.GET, world.POST})
	}
}
