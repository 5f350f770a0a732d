package webhookconf

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

const reservedCluster = cluster + `
v1 nodes Node!
v1 nodes/status Node
v1 events Event
v1 bindings Binding
v1 serviceaccounts/token ServiceAccount
v1 serviceaccounts ServiceAccount
events.k8s.io/v1 events Event
coordination.k8s.io/v1 leases Lease
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest!
kyverno.io/v1 clusterpolicies ClusterPolicy!
rbac.authorization.k8s.io/v1 clusterroles ClusterRole!
`

// TestReservedKinds lists the requests for which a webhook with wildcards is called, according to the API server's evaluation of its
// condition.
func TestReservedKinds(t *testing.T) {
	for _, c := range []struct {
		name  string
		kinds []string
		yes   string // group/resource/subresource[:name]
		no    string
	}{
		{"everything but what is reserved", []string{"*"},
			"/pods /pods/exec /configmaps apps/deployments /serviceaccounts /secrets storage.k8s.io/storageclasses apiextensions.k8s.io/customresourcedefinitions:widgets.example.com " +
				"rbac.authorization.k8s.io/clusterroles:admin events.example.com/events /namespaces",
			"/events events.k8s.io/events /nodes /nodes/status /endpoints discovery.k8s.io/endpointslices coordination.k8s.io/leases authentication.k8s.io/tokenreviews " +
				"authorization.k8s.io/subjectaccessreviews authorization.k8s.io/selfsubjectaccessreviews certificates.k8s.io/certificatesigningrequests/approval " +
				"wgpolicyk8s.io/policyreports reports.kyverno.io/ephemeralreports openreports.io/reports kyverno.io/clusterpolicies kyverno.io/updaterequests " +
				"policies.kyverno.io/validatingpolicies /pods/binding /bindings /serviceaccounts/token apiregistration.k8s.io/apiservices storage.k8s.io/csinodes " +
				"rbac.authorization.k8s.io/clusterroles:kyverno:admission-controller apiextensions.k8s.io/customresourcedefinitions:policies.kyverno.io"},
		{"a kind that is named is covered, its subresources are not", []string{"*/*", "Node", "Lease", "ClusterPolicy", "ClusterRole"},
			"/nodes coordination.k8s.io/leases kyverno.io/clusterpolicies /pods/status rbac.authorization.k8s.io/clusterroles:kyverno:admission-controller",
			"/nodes/status /events kyverno.io/policies rbac.authorization.k8s.io/clusterrolebindings:kyverno:admission-controller"},
		{"a subresource that is named", []string{"*", "Node/status"}, "/nodes/status", "/nodes"},
		{"a subresource of all kinds", []string{"*/token", "*/binding"}, "/serviceaccounts/token /pods/binding", "/nodes/proxy"},
		{"all subresources of one kind", []string{"*", "Pod/*"}, "/pods/exec", "/nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			input := in(program("p", nil, c.kinds...))
			input.Resources = discovery.New(reservedCluster, time.Now)
			got, _, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			conditions := conditionsOf(webhooksOf(validatingOf(got, ResourceValidating))[0])
			if len(conditions) != 1 || conditions[0].Name != ReservedCondition {
				t.Fatalf("conditions: %v", conditions)
			}
			m := matcherOf(ReservedCondition, conditions[0].Expression)
			for want, list := range map[bool]string{true: c.yes, false: c.no} {
				for what := range strings.FieldsSeq(list) {
					where, name, _ := strings.Cut(what, ":")
					group, rest, _ := strings.Cut(where, "/")
					resource, sub, _ := strings.Cut(rest, "/")
					gvk := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "X"}
					a := admission.NewAttributesRecord(nil, nil, gvk, "x", name, gvk.GroupVersion().WithResource(resource), sub, admission.Create, nil, false, &user.DefaultInfo{Name: "u"})
					asked := m.Match(t.Context(), &admission.VersionedAttributes{Attributes: a, VersionedKind: gvk}, nil, nil)
					if asked.Error != nil || asked.Matches != want {
						t.Errorf("%s: asked %v (%v), want %v\n%s", what, asked.Matches, asked.Error, want, conditions[0].Expression)
					}
				}
			}
		})
	}
}

// A policy that names all subresources of a reserved resource, beside a wildcard, is asked about each of them.
func TestAllSubresourcesOfReservedResource(t *testing.T) {
	got, _, _, err := Desired(in(selecting(t, "a", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]},
		{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: ["nodes/*", "pods/*"]}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	condition := conditionsOf(webhooksOf(validatingOf(got, ResourceValidating))[0])[0]
	for what, want := range map[string]bool{"nodes": true, "nodes/proxy": true, "nodes/status": true, "pods/binding": true, "pods/exec": true, "serviceaccounts/token": false, "leases": true, "events": false} {
		resource, sub, _ := strings.Cut(what, "/")
		gvk := schema.GroupVersionKind{Version: "v1", Kind: "X"}
		a := admission.NewAttributesRecord(nil, nil, gvk, "", "n", gvk.GroupVersion().WithResource(resource), sub, admission.Connect, nil, false, &user.DefaultInfo{Name: "u"})
		asked := matcherOf(condition.Name, condition.Expression).Match(t.Context(), &admission.VersionedAttributes{Attributes: a, VersionedKind: gvk}, nil, nil)
		if asked.Error != nil || asked.Matches != want {
			t.Errorf("%s: asked %v (%v), want %v\n%s", what, asked.Matches, asked.Error, want, condition.Expression)
		}
	}
}

// A pattern that includes the kinds of the installation's roles and definitions leaves these objects out, as a wildcard does.
func TestOwnObjectsOfPatterns(t *testing.T) {
	for kinds, want := range map[string]bool{"ClusterRole*": true, "Custom*": true, "Cluster*": true, "ClusterRole": false, "Secre*": false} {
		input := in(program("p", nil, kinds))
		input.Resources = discovery.New(served("v1 secrets Secret\nrbac.authorization.k8s.io/v1 clusterroles ClusterRole!\nrbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding!\napiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition!\n"), time.Now)
		got, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		conditions := conditionsOf(webhooksOf(validatingOf(got, ResourceValidating))[0])
		if leaves := len(conditions) == 1 && conditions[0].Name == ReservedCondition && strings.Contains(conditions[0].Expression, "kyverno:webhook"); leaves != want {
			t.Errorf("%s: leaves out the objects of the installation: %v, want %v: %v", kinds, leaves, want, conditions)
		}
	}
}

// A pattern of letters and wildcards is resolved to kinds, without reserved kinds.
func TestReservedKindsOfPatterns(t *testing.T) {
	input := in(program("p", nil, "*e*@CREATE"))
	input.Resources = discovery.New(served("v1 nodes Node!\nv1 secrets Secret\ncoordination.k8s.io/v1 leases Lease\n"), time.Now)
	got, _, _, _ := Desired(input)
	if text, want := text(got, false), "validate.kyverno.svc-fail /validate/fail Fail 10\n  \"\" v1 secrets Namespaced CREATE\n"; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// TestReview: warnings report the cost of wildcards, and the risk of kinds that are needed for recovery, once for each rule.
func TestReview(t *testing.T) {
	known := discovery.New(reservedCluster, time.Now)
	for _, c := range []struct {
		kinds  []string
		change func(*policy.Program)
		want   []string
	}{
		{kinds: []string{"Pod", "Event"}},
		{kinds: []string{"*", "Pod"}, want: []string{"wildcard in * costs"}},
		{kinds: []string{"Node", "Lease", "Node"}, want: []string{"every request for Node, Lease is refused"}},
		{kinds: []string{"Node"}, change: func(p *policy.Program) { p.Settings.FailurePolicy = policy.Ignore }},
		{kinds: []string{"Node", "*"}, change: func(p *policy.Program) { p.Settings.Admission = false }},
		{kinds: []string{"Node", "*"}, change: func(p *policy.Program) { p.Rules[0].Origin.Parent = "r" }},
		{kinds: []string{"*/*", "CertificateSigningRequest"}, want: []string{"wildcard in */*", "CertificateSigningRequest"}},
	} {
		var got []string
		for _, d := range Review(program("p", c.change, c.kinds...), known, nil, false).Warnings() {
			got = append(got, d.Summary)
		}
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && strings.Contains(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%v: %q", c.kinds, got)
		}
	}
}

// The warnings for a policy whose rule has no name do not name a rule.
func TestReviewWithoutRuleNames(t *testing.T) {
	p := program("p", nil, "*")
	for _, r := range p.Rules {
		r.Name = ""
	}
	diags := Review(p, in(p).Resources, nil, false)
	if len(diags) != 1 || !strings.HasPrefix(diags[0].Summary, "the wildcard in * costs") {
		t.Error(diags)
	}
}
