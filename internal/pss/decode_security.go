package pss

import (
	corev1 "k8s.io/api/core/v1"
)

// podSecurityContext decodes spec.securityContext.
func podSecurityContext(m map[string]any) *corev1.PodSecurityContext {
	sc := &corev1.PodSecurityContext{
		RunAsNonRoot: boolAt(m, "runAsNonRoot"), RunAsUser: userAt(m),
		SELinuxOptions: seLinuxAt(m), WindowsOptions: windowsAt(m),
		SeccompProfile: seccompAt(m), AppArmorProfile: appArmorAt(m),
	}
	for _, v := range listAt(m, "sysctls") {
		s, _ := v.(map[string]any)
		sc.Sysctls = append(sc.Sysctls, corev1.Sysctl{Name: textAt(s, "name")})
	}
	return sc
}

// securityContext decodes the securityContext of a container.
func securityContext(m map[string]any) *corev1.SecurityContext {
	sc := &corev1.SecurityContext{
		Privileged: boolAt(m, "privileged"), AllowPrivilegeEscalation: boolAt(m, "allowPrivilegeEscalation"),
		RunAsNonRoot: boolAt(m, "runAsNonRoot"), RunAsUser: userAt(m),
		SELinuxOptions: seLinuxAt(m), WindowsOptions: windowsAt(m),
		SeccompProfile: seccompAt(m), AppArmorProfile: appArmorAt(m),
	}
	if c := mapAt(m, "capabilities"); c != nil {
		sc.Capabilities = &corev1.Capabilities{Add: capabilityList(c, "add"), Drop: capabilityList(c, "drop")}
	}
	if p, ok := m["procMount"].(string); ok {
		t := corev1.ProcMountType(p)
		sc.ProcMount = &t
	}
	return sc
}

var dropAll = []corev1.Capability{allCapabilities}

// capabilityList decodes a list of names; a null entry is an empty name.
func capabilityList(m map[string]any, key string) []corev1.Capability {
	list := listAt(m, key)
	if len(list) == 0 {
		return nil
	}
	if len(list) == 1 && list[0] == string(allCapabilities) {
		return dropAll
	}
	out := make([]corev1.Capability, len(list))
	for i, v := range list {
		s, _ := v.(string)
		out[i] = corev1.Capability(s)
	}
	return out
}

func userAt(m map[string]any) *int64 {
	if uid, ok := intAt(m, "runAsUser"); ok {
		return &uid
	}
	return nil
}

func seLinuxAt(m map[string]any) *corev1.SELinuxOptions {
	o := mapAt(m, "seLinuxOptions")
	if o == nil {
		return nil
	}
	return &corev1.SELinuxOptions{User: textAt(o, "user"), Role: textAt(o, "role"), Type: textAt(o, "type")}
}

func windowsAt(m map[string]any) *corev1.WindowsSecurityContextOptions {
	o := mapAt(m, "windowsOptions")
	if o == nil {
		return nil
	}
	return &corev1.WindowsSecurityContextOptions{HostProcess: boolAt(o, "hostProcess")}
}

var runtimeDefault = corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}

func seccompAt(m map[string]any) *corev1.SeccompProfile {
	o := mapAt(m, "seccompProfile")
	if o == nil {
		return nil
	}
	t := corev1.SeccompProfileType(textAt(o, "type"))
	if t == runtimeDefault.Type {
		return &runtimeDefault
	}
	return &corev1.SeccompProfile{Type: t}
}

func appArmorAt(m map[string]any) *corev1.AppArmorProfile {
	o := mapAt(m, "appArmorProfile")
	if o == nil {
		return nil
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileType(textAt(o, "type"))}
}
