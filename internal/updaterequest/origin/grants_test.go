package origin

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// A kind in a variable is resolved to all served kinds that match.
func TestKindsOf(t *testing.T) {
	served := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}}
	var asked []policy.Target
	o := &Objects{Record: New(Options{}), Find: func(t policy.Target) ([]schema.GroupVersionKind, error) {
		asked = append(asked, t)
		return served, nil
	}}
	for _, c := range []struct {
		grant   policy.Grant
		asked   policy.Target
		guessed bool
	}{
		{policy.Grant{APIVersion: "v1", Kind: "ConfigMap"}, policy.Target{}, false},
		{policy.Grant{APIVersion: "v1", Kind: "{{request.object.data.kind}}"}, policy.Target{Version: "v1", Kind: "*"}, true},
		{policy.Grant{APIVersion: "{{a}}/{{b}}", Kind: "Config{{ c }}"}, policy.Target{Group: "*", Version: "*", Kind: "Config*"}, true},
		{policy.Grant{APIVersion: "apps/{{b}}", Kind: "Deployment"}, policy.Target{Group: "apps", Version: "*", Kind: "Deployment"}, true},
		{policy.Grant{APIVersion: "v1/{{kind}}", Kind: "v1/{{kind}}"}, policy.Target{Version: "v1", Kind: "*"}, true}, // cloneList
		{policy.Grant{APIVersion: "{{kind}}", Kind: "{{kind}}"}, policy.Target{Group: "*", Version: "*", Kind: "*"}, true},
		{policy.Grant{APIVersion: "v1", Kind: "{{ request.object.data\n.kind }}"}, policy.Target{Version: "v1", Kind: "*"}, true},
	} {
		asked = nil
		got, err := o.kindsOf(&policy.Program{}, &policy.Rule{WorkPlan: policy.WorkPlan{Grants: []policy.Grant{c.grant, {APIVersion: "v1", Kind: "Pod", Source: true}}}})
		if err != nil || len(got) == 0 || got[0].guessed != c.guessed {
			t.Errorf("%+v: %v, %v", c.grant, got, err)
		}
		if c.guessed && (len(asked) != 1 || !reflect.DeepEqual(asked[0], c.asked)) {
			t.Errorf("%+v: asked for %+v, want %+v", c.grant, asked, c.asked)
		}
	}
}

// An object that the changed rule generates does not count as one of the earlier version.
func TestFits(t *testing.T) {
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	rule := &policy.Rule{WorkPlan: policy.WorkPlan{Grants: []policy.Grant{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "{{request.namespace}}", Name: "{{request.object.metadata.name}}-{{random('x')}}-made"},
		{APIVersion: "v1", Kind: "Secret", Source: true},
		{APIVersion: "v1", Kind: "ServiceAccount", Name: "{{ join('-', [\n  'a', request.name\n]) }}-made"},
	}}}
	for _, c := range []struct {
		u    *unstructured.Unstructured
		want bool
	}{
		{object("ConfigMap", "any", "a-b-made"), true}, {object("ConfigMap", "any", "a"), false}, {object("Secret", "any", "a-b-made"), false},
		{object("ServiceAccount", "any", "a-b-made"), true},
	} {
		if got := Fits(rule, c.u); got != c.want {
			t.Errorf("%s: %v", updaterequest.ObjectText(c.u), got)
		}
	}
}
