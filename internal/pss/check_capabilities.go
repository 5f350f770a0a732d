package pss

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const idCapabilitiesRestricted = "capabilities_restricted"

// allCapabilities is what containers must drop on the level restricted.
const allCapabilities corev1.Capability = "ALL"

var capabilities = &control{
	name: "Capabilities", ids: []string{"capabilities_baseline", idCapabilitiesRestricted},
	level: LevelBaseline, images: imagesRequired,
	doc: "Containers must not add capabilities beyond the default set; on the level restricted they drop all and add " +
		"back at most NET_BIND_SERVICE.",
	examples: []string{
		"spec.containers[*].securityContext.capabilities.add", "spec.containers[*].securityContext.capabilities.drop",
	},
	locate: func(id string, f *finder) {
		f.each(func(c *container) {
			var set *corev1.Capabilities
			if c.SecurityContext != nil {
				set = c.SecurityContext.Capabilities
			}
			if id == idCapabilitiesRestricted {
				f.undropped(c, set)
			}
			f.addedCapabilities(c, set)
		})
	},
}

// undropped reports a container that does not drop all capabilities.
func (f *finder) undropped(c *container, set *corev1.Capabilities) {
	const field = "securityContext.capabilities.drop"
	switch {
	case set == nil || len(set.Drop) == 0:
		f.require(c.containerRef, field)
	case !slices.Contains(set.Drop, allCapabilities):
		f.forbid(c.containerRef, field, texts(set.Drop))
	}
}

// addedCapabilities reports the capabilities that a container must not add, all of them as one value.
func (f *finder) addedCapabilities(c *container, set *corev1.Capabilities) {
	if set == nil {
		return
	}
	var bad []corev1.Capability
	all := slices.Clone(set.Add)
	slices.Sort(all)
	for _, added := range slices.Compact(all) {
		probe := corev1.Capabilities{Add: []corev1.Capability{added}, Drop: []corev1.Capability{allCapabilities}}
		if f.forbidsContainer(corev1.SecurityContext{Capabilities: &probe}) {
			bad = append(bad, added)
		}
	}
	if len(bad) > 0 {
		f.forbid(c.containerRef, "securityContext.capabilities.add", texts(bad))
	}
}

func texts[T ~string](in []T) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}
