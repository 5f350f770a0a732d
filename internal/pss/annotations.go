package pss

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotations reports the chosen annotations that the check forbids, sorted by key. In old versions they had the role of
// fields; a key may end with the name of a container.
func (f *finder) annotations(chosen func(key string) bool) {
	if len(f.meta.Annotations) == 0 {
		return
	}
	names := map[string]bool{}
	f.each(func(c *container) { names[c.Name] = true })
	for _, key := range slices.Sorted(maps.Keys(f.meta.Annotations)) {
		if !chosen(key) {
			continue
		}
		text := f.meta.Annotations[key]
		one := metav1.ObjectMeta{Annotations: map[string]string{key: text}}
		spec := corev1.PodSpec{}
		if name := key[strings.LastIndexByte(key, '/')+1:]; names[name] {
			spec.Containers = []corev1.Container{{Name: name}}
		}
		if f.forbidsWith(&one, &spec) {
			f.report(FieldError{Field: "metadata.annotations[" + key + "]", Value: text})
		}
	}
}
