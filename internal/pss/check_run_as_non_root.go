package pss

var runAsNonRoot = &control{
	name: "Running as Non-root", ids: []string{"runAsNonRoot"}, level: LevelRestricted, images: imagesOptional,
	doc: "Containers have to be forbidden to run as root, each or all at the pod. Since v1.35 not in a user namespace.",
	examples: []string{
		"spec.securityContext.runAsNonRoot", "spec.containers[*].securityContext.runAsNonRoot",
	},
	locate: func(_ string, f *finder) {
		const field = "securityContext.runAsNonRoot"
		inherited := false
		if sc := f.spec.SecurityContext; sc != nil {
			inherited = isTrue(sc.RunAsNonRoot)
			if isFalse(sc.RunAsNonRoot) {
				f.forbid(containerRef{}, field, false)
			}
		}
		f.each(func(c *container) {
			switch sc := c.SecurityContext; {
			case sc == nil || sc.RunAsNonRoot == nil:
				if !inherited {
					f.require(c.containerRef, field)
				}
			case !*sc.RunAsNonRoot:
				f.forbid(c.containerRef, field, false)
			}
		})
	},
}
