package lookups

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestSubjectKeys(t *testing.T) {
	got := subjectKeys([]rbacv1.Subject{
		{Kind: "User", Name: "jane"}, {Kind: "Group", Name: "dev"}, {Kind: "ServiceAccount", Name: "bot", Namespace: "infra"},
		{Kind: "ServiceAccount", Name: "local"}, {Kind: "Robot", Name: "x"},
	}, "team")
	want := "user jane|group dev|user system:serviceaccount:infra:bot|user system:serviceaccount:team:local"
	if strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
}

// Cached bindings keep what names their subjects and their role.
func TestCachedBindings(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "x"}}
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "n", Labels: map[string]string{"a": "b"}, ManagedFields: managed}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}}
	if _, err := onlySubjects(b); err != nil || b.Labels != nil || b.ManagedFields != nil || b.Namespace != "n" || len(b.Subjects) != 1 {
		t.Errorf("%+v", b)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "k"}
	if out, err := onlySubjects(gone); err != nil || out != any(gone) {
		t.Errorf("a tombstone became %v, %v", out, err)
	}
}
