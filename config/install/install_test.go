package install

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/settings"
)

// documents decodes every manifest and calls f with its kind, name and text.
func documents(t *testing.T, text []byte, f func(kind, name string, raw []byte)) {
	t.Helper()
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var head struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if head.Kind == "" || head.Name == "" || head.APIVersion == "" {
			t.Fatalf("a document without kind or name:\n%s", doc)
		}
		f(head.Kind, head.Name, doc)
	}
}

func TestManifests(t *testing.T) {
	found := map[string]bool{}
	documents(t, YAML(443), func(kind, name string, raw []byte) {
		if key := kind + "/" + name; found[key] {
			t.Errorf("%s is there twice", key)
		} else {
			found[key] = true
		}
		if kind == "ConfigMap" && name == ConfigMap {
			var cm corev1.ConfigMap
			if err := yaml.Unmarshal(raw, &cm); err != nil {
				t.Fatal(err)
			}
			checkSettings(t, cm.Data)
		}
	})
	for _, want := range []string{
		"Namespace/" + Namespace, "ServiceAccount/" + AdmissionServiceAccount, "Service/" + AdmissionService, "ConfigMap/" + ConfigMap,
		"ClusterRole/kyverno:admission-controller", "ClusterRoleBinding/kyverno:admission-controller",
	} {
		if !found[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

// The shipped ConfigMap must parse, and leave our own objects and the system's alone.
func checkSettings(t *testing.T, data map[string]string) {
	s, diags := settings.Parse(data)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for ns, want := range map[string]bool{"kyverno": true, "kube-system": true, "default": false} {
		if got := s.Filtered(pod, "", ns, "x"); got != want {
			t.Errorf("a Pod in %s: filtered %v", ns, got)
		}
	}
	if out, err := s.Excluded("system:node:x", []string{"system:nodes"}, nil); !out || err != nil {
		t.Errorf("nodes are not excluded: %v %v", out, err)
	}
	if s.Webhook.NamespaceSelector == nil || s.Webhook.Annotations["admissions.enforcer/disabled"] != "true" {
		t.Errorf("webhooks: %+v", s.Webhook)
	}
}

func TestServicePort(t *testing.T) {
	documents(t, YAML(8443), func(kind, _ string, raw []byte) {
		if kind != "Service" {
			return
		}
		var s corev1.Service
		if err := yaml.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		if s.Spec.Ports[0].Port != 8443 {
			t.Errorf("port %d", s.Spec.Ports[0].Port)
		}
	})
}
