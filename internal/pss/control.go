package pss

// imageScope defines whether an exclusion from a control names images.
type imageScope uint8

const (
	imagesOptional  imageScope = iota // the control has fields of the pod and of containers
	imagesRequired                    // it has fields of containers only
	imagesForbidden                   // it has fields of the pod only
)

// control is one control of the Pod Security Standards.
type control struct {
	// name is the name in exclusions; empty for a control that cannot be excluded.
	name     string
	ids      []string // the IDs of the library's checks
	level    string   // the lowest level that has it
	images   imageScope
	doc      string
	examples []string // fields that it checks
	// locate reports to f the fields of a pod that the check with that id forbids.
	locate func(id string, f *finder)
}

// controls is the immutable registry.
var controls = freezeControls(
	privilegedContainers, capabilities, hostPorts, procMount, privilegeEscalation, hostNamespaces, hostPathVolumes,
	sysctls, volumeTypes, hostProcess, seLinux, appArmor, seccomp, runAsNonRoot, runAsNonRootUser, probeHosts,
)

func freezeControls(in ...*control) []*control {
	names, ids := map[string]bool{}, map[string]bool{}
	for _, c := range in {
		if len(c.ids) == 0 || c.locate == nil || c.level == "" || c.doc == "" || len(c.examples) == 0 || names[c.name] {
			panic("pss: incomplete or duplicate registration of " + c.name)
		}
		names[c.name] = true
		for _, id := range c.ids {
			if ids[id] {
				panic("pss: duplicate check " + id)
			}
			ids[id] = true
		}
	}
	return in
}

func controlOf(id string) *control {
	for _, c := range controls {
		for _, known := range c.ids {
			if known == id {
				return c
			}
		}
	}
	return nil
}

func controlNamed(name string) *control {
	for _, c := range controls {
		if c.name == name && name != "" {
			return c
		}
	}
	return nil
}

// Control describes a control for the reference documentation.
type Control struct {
	Name   string   // empty if it cannot be excluded
	IDs    []string // the IDs of its checks
	Level  string   // the lowest level that has it
	Images string   // in exclusions: required, optional or forbidden
	Doc    string
	Fields []string
}

// Controls lists every control.
func Controls() []Control {
	out := make([]Control, len(controls))
	for i, c := range controls {
		out[i] = Control{Name: c.name, IDs: c.ids, Level: c.level, Doc: c.doc, Fields: c.examples,
			Images: [...]string{"optional", "required", "forbidden"}[c.images]}
	}
	return out
}

// controlNames returns the names that exclusions may use.
func controlNames() []string {
	var out []string
	for _, c := range controls {
		if c.name != "" {
			out = append(out, c.name)
		}
	}
	return out
}
