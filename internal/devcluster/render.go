package devcluster

import (
	"bytes"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
)

// render is the rendered chart, separated by kind of object.
type render struct {
	definitions []byte // YAML of the CustomResourceDefinitions
	objects     []byte // YAML of the other objects except the Deployments
	deployments []byte // YAML of the Deployments
	workloads   []workload
}

// workload is a Deployment.
type workload struct {
	component, namespace, name string
	pod                        corev1.PodSpec
	labels                     map[string]string // labels of the Pods
	service                    string            // the Service in front of them with a port named https, if any
}

// readRender separates the YAML documents.
func readRender(text []byte) (*render, error) {
	r := &render{}
	var definitions, objects, deployments bytes.Buffer
	var services []corev1.Service
	for _, doc := range charts.Documents(text) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, doc)
		}
		out := &objects
		switch kind.Kind {
		case "CustomResourceDefinition":
			out = &definitions
		case "Deployment":
			out = &deployments
			var d appsv1.Deployment
			if err := yaml.UnmarshalStrict(doc, &d); err != nil {
				return nil, err
			}
			if err := r.add(&d); err != nil {
				return nil, err
			}
		case "Service":
			var s corev1.Service
			if err := yaml.UnmarshalStrict(doc, &s); err != nil {
				return nil, err
			}
			services = append(services, s)
		}
		out.WriteString("---\n")
		out.Write(doc)
		out.WriteString("\n")
	}
	r.join(services)
	r.definitions, r.objects, r.deployments = definitions.Bytes(), objects.Bytes(), deployments.Bytes()
	return r, nil
}

// add adds a Deployment.
func (r *render) add(d *appsv1.Deployment) error {
	if len(d.Spec.Template.Spec.Containers) != 1 {
		return fmt.Errorf("the Deployment %s does not have one container", d.Name)
	}
	r.workloads = append(r.workloads, workload{
		component: d.Labels["app.kubernetes.io/component"], namespace: d.Namespace, name: d.Name,
		pod: d.Spec.Template.Spec, labels: d.Spec.Template.Labels,
	})
	return nil
}

// join finds the Service of each Deployment.
func (r *render) join(services []corev1.Service) {
	for i := range r.workloads {
		for _, s := range services {
			if w := &r.workloads[i]; s.Spec.Ports[0].Name == "https" && s.Namespace == w.namespace && selects(s.Spec.Selector, w.labels) {
				w.service = s.Name
			}
		}
	}
}

func selects(selector, labels map[string]string) bool {
	matched := maps.Clone(labels)
	maps.DeleteFunc(matched, func(k, v string) bool { return selector[k] != v })
	return len(selector) > 0 && len(matched) == len(selector)
}
