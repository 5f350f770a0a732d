package pss

import (
	"errors"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ephor-dev/ephor/internal/budget"
)

// Pod is what the checks read of a pod or of a pod template.
type Pod struct {
	Meta metav1.ObjectMeta // annotations of the standards only
	Spec corev1.PodSpec    // only the fields that checks read

	prefix string // path of the template in the object it was taken from, ending in a dot; empty for a Pod
}

// path is the path in the object of a field of the pod. Metadata are always shown as those of a template, even of a Pod,
// since users know that text from the reference.
func (p *Pod) path(field string) string {
	if strings.HasPrefix(field, "metadata") {
		return "spec.template." + field
	}
	return p.prefix + field
}

// workload is a kind that is a pod or has a template of pods.
type workload struct {
	goType   reflect.Type
	template []string // the way to the template
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

// Decode reads the pod, or the template of the controller, in a decoded object. An object whose fields have other types
// than its kind has is refused with the words of encoding/json; unknown fields are passed over. Objects that would take
// an unreasonable amount of memory are refused with an error wrapping budget.ErrExhausted; meter may be nil.
func Decode(object map[string]any, meter *budget.Meter) (*Pod, error) {
	kind, _ := object["kind"].(string)
	w, ok := workloads[kind]
	if !ok {
		return nil, errKind
	}
	if err := conforms(object, w.goType, meter); err != nil {
		return nil, err
	}
	p := &Pod{}
	template := object
	for _, step := range w.template {
		template = mapAt(template, step)
		p.prefix += step + "."
	}
	decodeMeta(&p.Meta, mapAt(template, "metadata"))
	decodeSpec(&p.Spec, mapAt(template, "spec"))
	return p, nil
}
