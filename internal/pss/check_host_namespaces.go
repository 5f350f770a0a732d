package pss

var hostNamespaces = &control{
	name: "Host Namespaces", ids: []string{"hostNamespaces"}, level: LevelBaseline, images: imagesForbidden,
	doc:      "A pod must not share the network, the processes or the IPC of its node.",
	examples: []string{"spec.hostNetwork", "spec.hostPID", "spec.hostIPC"},
	locate: func(_ string, f *finder) {
		for _, n := range []struct {
			set   bool
			field string
		}{{f.spec.HostNetwork, "hostNetwork"}, {f.spec.HostPID, "hostPID"}, {f.spec.HostIPC, "hostIPC"}} {
			if n.set {
				f.forbid(containerRef{}, n.field, true)
			}
		}
	},
}
