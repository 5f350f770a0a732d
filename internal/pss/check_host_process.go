package pss

import corev1 "k8s.io/api/core/v1"

var hostProcess = &control{
	name: "HostProcess", ids: []string{"windowsHostProcess"}, level: LevelBaseline, images: imagesOptional,
	doc: "Windows containers must not run as processes of the node.",
	examples: []string{
		"spec.securityContext.windowsOptions.hostProcess", "spec.containers[*].securityContext.windowsOptions.hostProcess",
	},
	locate: func(_ string, f *finder) {
		const field = "securityContext.windowsOptions.hostProcess"
		bad := func(o *corev1.WindowsSecurityContextOptions) bool { return o != nil && isTrue(o.HostProcess) }
		f.each(func(c *container) {
			if sc := c.SecurityContext; sc != nil && bad(sc.WindowsOptions) {
				f.forbid(c.containerRef, field, true)
			}
		})
		if sc := f.spec.SecurityContext; sc != nil && bad(sc.WindowsOptions) {
			f.forbid(containerRef{}, field, true)
		}
	},
}
