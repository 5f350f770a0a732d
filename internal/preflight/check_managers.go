package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// partOf is the label of all objects of Kyverno's chart, and of Ephor's.
var partOf = client.MatchingLabels{"app.kubernetes.io/part-of": "kyverno"}

// installed are the kinds of the installation's objects whose fields a server-side apply sets.
var installed = []struct {
	gvk     schema.GroupVersionKind
	cluster bool
}{
	{appsv1.SchemeGroupVersion.WithKind("Deployment"), false},
	{corev1.SchemeGroupVersion.WithKind("Service"), false},
	{corev1.SchemeGroupVersion.WithKind("ConfigMap"), false},
	{schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}, true},
}

// controllers are field managers whose fields no manifest sets: the controllers of Kubernetes, and Ephor's.
var controllers = []string{"kube-controller-manager", "clusterrole-aggregation-controller", "ephor-preflight", "ephor"}

func (s *state) checkManagers(ctx context.Context) {
	for _, kind := range installed {
		options := []client.ListOption{partOf}
		if !kind.cluster {
			options = append(options, client.InNamespace(s.Namespace))
		}
		err := s.each(ctx, kind.gvk, func(u *unstructured.Unstructured) {
			s.managers(u)
			if kind.gvk.Kind == "Deployment" {
				s.initContainers(u)
			}
		}, options...)
		s.unread(Object{Kind: kind.gvk.Kind, Namespace: s.Namespace}, err)
	}
}

// managers finds fields that a manager other than the object's tool wrote.
func (s *state) managers(u *unstructured.Unstructured) {
	byManager := map[string][]string{}
	for _, m := range u.GetManagedFields() {
		if m.Subresource != "" || slices.Contains(controllers, m.Manager) || s.toolOf(u) == m.Manager {
			continue
		}
		for _, field := range fieldsOf(m) {
			if !slices.Contains(byManager[m.Manager], field) {
				byManager[m.Manager] = append(byManager[m.Manager], field)
			}
		}
	}
	var texts []string
	for _, manager := range sorted(byManager) {
		texts = append(texts, manager+" wrote "+strings.Join(byManager[manager], ", "))
	}
	if len(texts) > 0 {
		s.add(Finding{
			Code: "field-manager", Severity: Note, Object: objectOf(u),
			Message:  strings.Join(texts, "; ") + ": a server-side apply that sets these fields conflicts, and these changes are lost when it is forced",
			Commands: []string{"kubectl apply --server-side --force-conflicts -f ephor.yaml"},
		})
	}
}

// toolOf returns the field manager of the tool that installed the object; empty if it is unknown.
func (s *state) toolOf(u *unstructured.Unstructured) string {
	annotations := u.GetAnnotations()
	switch {
	case ownedByArgoCD(u):
		return "argocd-controller"
	case u.GetLabels()["kustomize.toolkit.fluxcd.io/name"] != "":
		return "kustomize-controller"
	case annotations["meta.helm.sh/release-name"] != "":
		if u.GetLabels()["helm.toolkit.fluxcd.io/name"] != "" {
			return "helm-controller"
		}
		return "helm"
	}
	return ""
}

// fieldsOf returns the fields below spec and data that a manager wrote, at most two levels deep.
func fieldsOf(m metav1.ManagedFieldsEntry) (out []string) {
	if m.FieldsV1 == nil {
		return nil
	}
	var fields map[string]map[string]json.RawMessage
	if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	for _, top := range []string{"spec", "data", "rules"} {
		below, ok := fields["f:"+top]
		if !ok {
			continue
		}
		n := len(out)
		for _, key := range sorted(below) {
			if name, ok := strings.CutPrefix(key, "f:"); ok {
				out = append(out, top+"."+name)
			}
		}
		if len(out) == n {
			out = append(out, top)
		}
	}
	return out
}

// initContainers finds init containers that Ephor's Deployments do not have and that no tool removes.
func (s *state) initContainers(u *unstructured.Unstructured) {
	if s.toolOf(u) != "" {
		return
	}
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "initContainers")
	if err != nil {
		s.unread(objectOf(u), err)
		return
	}
	var names []string
	for _, c := range list {
		container, _ := c.(map[string]any)
		if name, _ := container["name"].(string); name == "kyverno-pre" {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		s.add(Finding{
			Code: "init-container", Severity: Stops, Object: objectOf(u),
			Message:  fmt.Sprintf("the init container %s stays in the Pods when another manifest is applied over it, and nothing of Ephor needs it", strings.Join(names, ", ")),
			Commands: []string{fmt.Sprintf("kubectl delete deployment -n %s %s --cascade=orphan   # its Pods go on until the manifest of Ephor is applied, right after", u.GetNamespace(), u.GetName())},
		})
	}
}

func objectOf(u client.Object) Object {
	return Object{Kind: u.GetObjectKind().GroupVersionKind().Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
}
