package pss

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const idSeccompRestricted = "seccompProfile_restricted"

// Annotations that selected seccomp profiles before v1.19.
const (
	seccompPodAnnotation       = corev1.SeccompPodAnnotationKey
	seccompContainerAnnotation = corev1.SeccompContainerAnnotationKeyPrefix
)

var seccomp = &control{
	name: "Seccomp", ids: []string{"seccompProfile_baseline", idSeccompRestricted},
	level: LevelBaseline, images: imagesOptional,
	doc: "Seccomp profiles are those of the runtime or of the node; on the level restricted there has to be one.",
	examples: []string{
		"spec.securityContext.seccompProfile.type", "spec.containers[*].securityContext.seccompProfile.type",
	},
	locate: func(id string, f *finder) {
		const field = "securityContext.seccompProfile.type"
		bad := func(p *corev1.SeccompProfile) bool {
			return f.forbidsPod(corev1.PodSecurityContext{SeccompProfile: p})
		}
		inherited := false
		if sc := f.spec.SecurityContext; sc != nil && sc.SeccompProfile != nil {
			if bad(sc.SeccompProfile) {
				f.forbid(containerRef{}, field, string(sc.SeccompProfile.Type))
			} else {
				inherited = true
			}
		}
		f.each(func(c *container) {
			sc := c.SecurityContext
			if sc == nil || sc.SeccompProfile == nil {
				if id == idSeccompRestricted && !inherited {
					f.require(c.containerRef, field)
				}
			} else if bad(sc.SeccompProfile) {
				f.forbid(c.containerRef, field, string(sc.SeccompProfile.Type))
			}
		})
		f.annotations(func(key string) bool {
			return key == seccompPodAnnotation || strings.HasPrefix(key, seccompContainerAnnotation)
		})
	},
}
