package pss

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pspolicy "k8s.io/pod-security-admission/policy"

	"ephor.invalid/ephor/internal/budget"
)

// finder collects the fields that violate one check.
type finder struct {
	meta  *metav1.ObjectMeta
	spec  *corev1.PodSpec
	run   pspolicy.CheckPodFn
	meter *budget.Meter
	found []FieldError
	err   error // the budget is exhausted
}

// container is a container with its reference.
type container struct {
	*corev1.Container
	containerRef
}

// eachContainer visits the containers of a pod in the order of the library: init containers first.
func eachContainer(spec *corev1.PodSpec, visit func(*container)) {
	c := container{containerRef: containerRef{list: "initContainers"}}
	for c.index = range spec.InitContainers {
		c.Container = &spec.InitContainers[c.index]
		visit(&c)
	}
	c.list = "containers"
	for c.index = range spec.Containers {
		c.Container = &spec.Containers[c.index]
		visit(&c)
	}
	c.list = "ephemeralContainers"
	for c.index = range spec.EphemeralContainers {
		c.Container = (*corev1.Container)(&spec.EphemeralContainers[c.index].EphemeralContainerCommon)
		visit(&c)
	}
}

func (f *finder) each(visit func(*container)) { eachContainer(f.spec, visit) }

// The cost of one run of a check, and of one field in the message. A field is in the message and in the lists that lead to it.
const (
	runSteps, runBytes     = 200, 1000
	fieldSteps, fieldBytes = 20, 100
)

// pays charges for work. It returns false if the budget is exhausted.
func (f *finder) pays(steps, bytes int) bool {
	if f.err == nil {
		f.err = f.meter.Step(steps)
	}
	if f.err == nil {
		f.err = f.meter.Bytes(bytes)
	}
	return f.err == nil
}

// report adds a field.
func (f *finder) report(e FieldError) {
	if f.pays(fieldSteps, fieldBytes+len(e.Field)) {
		f.found = append(f.found, e)
	}
}

// forbid reports the value of the field below the container as forbidden.
func (f *finder) forbid(at containerRef, field string, v any) {
	f.report(FieldError{Field: at.path() + "." + field, Value: v, at: at})
}

// require reports a missing field.
func (f *finder) require(at containerRef, field string) {
	f.report(FieldError{Field: at.path() + "." + field, Required: true, at: at})
}

// forbids runs the check on a pod that has only the value in question.
func (f *finder) forbids(spec corev1.PodSpec) bool { return f.forbidsWith(&metav1.ObjectMeta{}, &spec) }

func (f *finder) forbidsWith(meta *metav1.ObjectMeta, spec *corev1.PodSpec) bool {
	return f.pays(runSteps, runBytes) && !f.run(meta, spec).Allowed
}

// forbidsContainer runs the check on a pod that has only a container with that security context.
func (f *finder) forbidsContainer(sc corev1.SecurityContext) bool {
	return f.forbids(corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: &sc}}})
}

// forbidsPod runs the check on a pod without containers.
func (f *finder) forbidsPod(sc corev1.PodSecurityContext) bool {
	return f.forbids(corev1.PodSpec{SecurityContext: &sc})
}

// isTrue and isFalse return false for absent values.
func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }
