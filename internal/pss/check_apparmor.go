package pss

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var appArmor = &control{
	name: "AppArmor", ids: []string{"appArmorProfile"}, level: LevelBaseline, images: imagesOptional,
	doc: "AppArmor profiles, in fields or in annotations, are those of the runtime or of the node.",
	examples: []string{
		"metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]",
		"spec.securityContext.appArmorProfile.type", "spec.containers[*].securityContext.appArmorProfile.type",
	},
	locate: func(_ string, f *finder) {
		if sc := f.spec.SecurityContext; sc != nil {
			f.appArmor(containerRef{}, sc.AppArmorProfile)
		}
		f.each(func(c *container) {
			if sc := c.SecurityContext; sc != nil {
				f.appArmor(c.containerRef, sc.AppArmorProfile)
			}
		})
		f.annotations(func(key string) bool {
			return strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
		})
	},
}

func (f *finder) appArmor(at containerRef, p *corev1.AppArmorProfile) {
	if p != nil && f.forbidsPod(corev1.PodSecurityContext{AppArmorProfile: p}) {
		f.forbid(at, "securityContext.appArmorProfile.type", string(p.Type))
	}
}
