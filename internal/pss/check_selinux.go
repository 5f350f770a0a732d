package pss

import corev1 "k8s.io/api/core/v1"

var seLinux = &control{
	name: "SELinux", ids: []string{"seLinuxOptions"}, level: LevelBaseline, images: imagesOptional,
	doc: "SELinux types are those made for containers; user and role are not set.",
	examples: []string{
		"spec.securityContext.seLinuxOptions.type", "spec.containers[*].securityContext.seLinuxOptions.type",
		"spec.containers[*].securityContext.seLinuxOptions.user", "spec.containers[*].securityContext.seLinuxOptions.role",
	},
	locate: func(_ string, f *finder) {
		if sc := f.spec.SecurityContext; sc != nil {
			f.seLinux(containerRef{}, sc.SELinuxOptions)
		}
		f.each(func(c *container) {
			if sc := c.SecurityContext; sc != nil {
				f.seLinux(c.containerRef, sc.SELinuxOptions)
			}
		})
	},
}

func (f *finder) seLinux(at containerRef, o *corev1.SELinuxOptions) {
	if o == nil {
		return
	}
	if f.forbidsPod(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: o.Type}}) {
		f.forbid(at, "securityContext.seLinuxOptions.type", o.Type)
	}
	if o.User != "" {
		f.forbid(at, "securityContext.seLinuxOptions.user", o.User)
	}
	if o.Role != "" {
		f.forbid(at, "securityContext.seLinuxOptions.role", o.Role)
	}
}
