package pss

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

var sysctls = &control{
	name: "Sysctls", ids: []string{"sysctls"}, level: LevelBaseline, images: imagesForbidden,
	doc:      "A pod must not set kernel parameters but those that are safe.",
	examples: []string{"spec.securityContext.sysctls[*].name"},
	locate: func(_ string, f *finder) {
		if f.spec.SecurityContext == nil {
			return
		}
		for i, s := range f.spec.SecurityContext.Sysctls {
			if f.forbidsPod(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{s}}) {
				f.forbid(containerRef{}, "securityContext.sysctls["+strconv.Itoa(i)+"].name", s.Name)
			}
		}
	},
}
