package pss

var privilegedContainers = &control{
	name: "Privileged Containers", ids: []string{"privileged"}, level: LevelBaseline, images: imagesRequired,
	doc:      "Containers must not be privileged: that switches most other protection off.",
	examples: []string{"spec.containers[*].securityContext.privileged"},
	locate: func(_ string, f *finder) {
		f.each(func(c *container) {
			if c.SecurityContext != nil && isTrue(c.SecurityContext.Privileged) {
				f.forbid(c.containerRef, "securityContext.privileged", true)
			}
		})
	},
}
