package pss

var privilegeEscalation = &control{
	name: "Privilege Escalation", ids: []string{"allowPrivilegeEscalation"}, level: LevelRestricted, images: imagesRequired,
	doc:      "Containers must forbid that a process gains more privileges than its parent.",
	examples: []string{"spec.containers[*].securityContext.allowPrivilegeEscalation"},
	locate: func(_ string, f *finder) {
		const field = "securityContext.allowPrivilegeEscalation"
		f.each(func(c *container) {
			switch sc := c.SecurityContext; {
			case sc == nil:
				f.require(c.containerRef, field)
			case sc.AllowPrivilegeEscalation == nil:
				f.forbid(c.containerRef, field, "nil") // Kyverno's text if there is a security context
			case *sc.AllowPrivilegeEscalation:
				f.forbid(c.containerRef, field, true)
			}
		})
	},
}
