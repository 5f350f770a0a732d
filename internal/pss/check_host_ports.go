package pss

import "strconv"

var hostPorts = &control{
	name: "Host Ports", ids: []string{"hostPorts"}, level: LevelBaseline, images: imagesRequired,
	doc:      "Containers must not open ports of the node.",
	examples: []string{"spec.containers[*].ports[*].hostPort"},
	locate: func(_ string, f *finder) {
		f.each(func(c *container) {
			for i, p := range c.Ports {
				if p.HostPort != 0 {
					f.forbid(c.containerRef, "ports["+strconv.Itoa(i)+"].hostPort", p.HostPort)
				}
			}
		})
	},
}
