package pss

import corev1 "k8s.io/api/core/v1"

var procMount = &control{
	name: "/proc Mount Type", ids: []string{"procMount", "procMount_restricted"}, level: LevelBaseline, images: imagesRequired,
	doc:      "Containers keep the masks of /proc. Since v1.35 a pod in a user namespace may lift them on the level baseline.",
	examples: []string{"spec.containers[*].securityContext.procMount"},
	locate: func(_ string, f *finder) {
		f.each(func(c *container) {
			sc := c.SecurityContext
			if sc != nil && sc.ProcMount != nil && *sc.ProcMount != corev1.DefaultProcMount {
				f.forbid(c.containerRef, "securityContext.procMount", string(*sc.ProcMount))
			}
		})
	},
}
