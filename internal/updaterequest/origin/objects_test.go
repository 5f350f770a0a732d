package origin

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Some objects exist for a while after their deletion.
func TestLingers(t *testing.T) {
	for text, want := range map[string]bool{
		`{"apiVersion":"v1","kind":"Pod"}`: true, `{"apiVersion":"v1","kind":"Namespace"}`: true, `{"apiVersion":"v1","kind":"Secret"}`: false,
		`{"apiVersion":"metrics.k8s.io/v1","kind":"Pod"}`: false, `{"apiVersion":"v1","kind":"Secret","metadata":{"finalizers":["x"]}}`: true,
	} {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		if got := lingers(u); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
