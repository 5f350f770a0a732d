package pss

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pspolicy "k8s.io/pod-security-admission/policy"
)

// finder collects the fields that violate one check.
type finder struct {
	meta  *metav1.ObjectMeta
	spec  *corev1.PodSpec
	run   pspolicy.CheckPodFn
	found []FieldError
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

// forbid reports the value of the field below the container as forbidden.
func (f *finder) forbid(at containerRef, field string, v any) {
	f.found = append(f.found, FieldError{Field: at.path() + "." + field, Value: v, at: at})
}

// require reports a missing field.
func (f *finder) require(at containerRef, field string) {
	f.found = append(f.found, FieldError{Field: at.path() + "." + field, Required: true, at: at})
}

// forbids runs the check on a pod that has only the value in question.
func (f *finder) forbids(spec corev1.PodSpec) bool {
	return !f.run(&metav1.ObjectMeta{}, &spec).Allowed
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
