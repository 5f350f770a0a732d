package pss

import (
	"errors"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/budget"
)

// Pod holds the parts of a pod or pod template that the checks read.
type Pod struct {
	Meta metav1.ObjectMeta // only the annotations of the standards
	Spec corev1.PodSpec    // only the fields that checks read

	prefix string // path of the template in the object, ending in a dot; empty for a Pod
	nodes  int    // the size of the object: each check reads at most so many values
}

// path returns the path of a field of the pod in the object. Metadata always have the path of a template, even in a Pod,
// since users know that text from Kyverno.
func (p *Pod) path(field string) string {
	if strings.HasPrefix(field, "metadata") {
		return "spec.template." + field
	}
	return p.prefix + field
}

// workload is a kind that is a pod or has a pod template.
type workload struct {
	goType   reflect.Type
	template []string // the path of the template
}

var (
	templated = []string{"spec", "template"}
	workloads = map[string]workload{
		"Pod":                   {reflect.TypeFor[corev1.Pod](), nil},
		"Deployment":            {reflect.TypeFor[appsv1.Deployment](), templated},
		"DaemonSet":             {reflect.TypeFor[appsv1.DaemonSet](), templated},
		"StatefulSet":           {reflect.TypeFor[appsv1.StatefulSet](), templated},
		"ReplicaSet":            {reflect.TypeFor[appsv1.ReplicaSet](), templated},
		"ReplicationController": {reflect.TypeFor[corev1.ReplicationController](), templated},
		"Job":                   {reflect.TypeFor[batchv1.Job](), templated},
		"CronJob":               {reflect.TypeFor[batchv1.CronJob](), []string{"spec", "jobTemplate", "spec", "template"}},
	}
)

var errKind = errors.New("could not find correct resource type")

// Decode decodes the pod, or the template of the controller, in a decoded object. If fields have other types than the
// kind defines, it returns the error of encoding/json; it ignores unknown fields. For objects that would take an
// unreasonable amount of memory it returns an error wrapping budget.ErrExhausted; meter may be nil.
func Decode(object map[string]any, meter *budget.Meter) (*Pod, error) {
	kind, _ := object["kind"].(string)
	w, ok := workloads[kind]
	if !ok {
		return nil, errKind
	}
	p := &Pod{}
	var err error
	if p.nodes, err = conforms(object, w.goType, meter); err != nil {
		return nil, err
	}
	template := object
	for _, step := range w.template {
		template = mapAt(template, step)
		p.prefix += step + "."
	}
	decodeMeta(&p.Meta, mapAt(template, "metadata"))
	decodeSpec(&p.Spec, mapAt(template, "spec"))
	return p, nil
}
