package pss

var runAsNonRootUser = &control{
	name: "Running as Non-root user", ids: []string{"runAsUser"}, level: LevelRestricted, images: imagesOptional,
	doc: "Containers must not set the user to 0. Since v1.35 they may in a user namespace.",
	examples: []string{
		"spec.securityContext.runAsUser", "spec.containers[*].securityContext.runAsUser",
	},
	locate: func(_ string, f *finder) {
		const field = "securityContext.runAsUser"
		root := func(uid *int64) bool { return uid != nil && *uid == 0 }
		if sc := f.spec.SecurityContext; sc != nil && root(sc.RunAsUser) {
			f.forbid(containerRef{}, field, int64(0))
		}
		f.each(func(c *container) {
			if sc := c.SecurityContext; sc != nil && root(sc.RunAsUser) {
				f.forbid(c.containerRef, field, int64(0))
			}
		})
	},
}
