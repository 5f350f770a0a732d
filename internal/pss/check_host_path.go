package pss

import "strconv"

var hostPathVolumes = &control{
	name: "HostPath Volumes", ids: []string{"hostPathVolumes"}, level: LevelBaseline, images: imagesForbidden,
	doc:      "A pod must not mount files of its node.",
	examples: []string{"spec.volumes[*].hostPath"},
	locate: func(_ string, f *finder) {
		for i := range f.spec.Volumes {
			if h := f.spec.Volumes[i].HostPath; h != nil {
				f.forbid(containerRef{}, "volumes["+strconv.Itoa(i)+"].hostPath", h.Path)
			}
		}
	},
}
