package webhookconf

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// roles answers list requests with the ClusterRoles that match the selector.
type roles []rbacv1.ClusterRole

func (r roles) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("not asked")
}

func (r roles) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	list := into.(*rbacv1.ClusterRoleList)
	for i := range r {
		if o.LabelSelector.Matches(roleLabels(r[i].Labels)) {
			list.Items = append(list.Items, r[i])
		}
	}
	return nil
}

type roleLabels map[string]string

func (l roleLabels) Has(k string) bool              { _, ok := l[k]; return ok }
func (l roleLabels) Get(k string) string            { return l[k] }
func (l roleLabels) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

func role(name, component string, leaving bool) rbacv1.ClusterRole {
	r := rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{OwnerLabel: component}}}
	if leaving {
		now := metav1.Now()
		r.DeletionTimestamp = &now
	}
	return r
}

// The owner is the controller's own role, which both charts have. If it does not exist, the owner is the role that exists only to own the
// configurations.
func TestFindOwner(t *testing.T) {
	own, only := role("kyverno:admission-controller", "admission-controller", false), role("kyverno:webhook", "kyverno", false)
	core := role("kyverno:admission-controller:core", "admission-controller", false)
	for name, c := range map[string]struct {
		roles roles
		role  string
		want  string
	}{
		"its own role":                      {roles{only, core, own}, own.Name, own.Name},
		"the role is gone":                  {roles{only, core}, own.Name, only.Name},
		"the role is being deleted":         {roles{role(own.Name, "admission-controller", true), only}, own.Name, only.Name},
		"both are being deleted":            {roles{role(own.Name, "admission-controller", true), role(only.Name, "kyverno", true)}, own.Name, ""},
		"no role of its own":                {roles{only, core, own}, "", only.Name},
		"only a user's role with our label": {roles{role("mine:webhook", "admission-controller", false), core}, own.Name, ""},
		"none":                              {nil, own.Name, ""},
	} {
		got, err := FindOwner(t.Context(), c.roles, c.role)
		if err != nil {
			t.Fatal(err)
		}
		if got == nil != (c.want == "") || got != nil && (got.Name != c.want || got.UID != types.UID("uid-"+c.want) || got.Kind != "ClusterRole") {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}
