package convert

import (
	"fmt"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/wildcard"
)

// podSecurity converts a rule about the Pod Security Standards: one validation for each control of its level and version.
func (c *converter) podSecurity(v *kyvernov1.Validation, spec map[string]any, path string) {
	p := &podStandard{converter: c, version: int(kubeversion.Newest), spec: member("object.spec"), metadata: member("object.metadata")}
	if version := v.PodSecurity.Version; version == "" || version == "latest" {
		c.note(path+".version", fmt.Sprintf("version latest of Pod Security is written as that of v1.%d: the new policy does not follow the API server", p.version), "")
	} else if n, err := strconv.Atoi(strings.TrimPrefix(version, "v1.")); err == nil {
		p.version = n
	}
	if !c.onlyPods() {
		c.variables = append(c.variables, map[string]any{"name": "pod", "expression": "object.kind == 'Pod' ? object : object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template : object.spec.template"})
		p.spec, p.metadata = member("variables.pod.spec"), member("variables.pod").optional("metadata")
	}
	c.variables = append(c.variables, map[string]any{"name": "containers", "expression": p.list("containers") + " + " + p.list("initContainers") + " + " + p.list("ephemeralContainers")})
	var validations []any
	for _, check := range p.checks(v.PodSecurity.Level == "baseline") {
		p.exclusions = nil
		for _, x := range v.PodSecurity.Exclude {
			if x.ControlName == check.control {
				p.exclusions = append(p.exclusions, x)
			}
		}
		holds := p.holds(&check)
		if holds == yes {
			continue
		}
		one := map[string]any{"expression": c.conditional(holds).text, "message": check.message}
		if v.Message != "" {
			delete(one, "message")
			c.message(v.Message, path[:strings.LastIndexByte(path, '.')]+".message", one)
		}
		validations = append(validations, one)
	}
	if len(validations) == 0 {
		c.refuse(path, "the rule excludes all controls", "")
		return
	}
	spec["validations"], spec["variables"] = validations, c.variables
}

// onlyPods reports whether the rule names no kind but Pod.
func (c *converter) onlyPods() bool {
	for _, k := range c.matched {
		if k.Kind != "Pod" {
			return false
		}
	}
	return len(c.matched) > 0
}

// podStandard converts the controls of one version of the Pod Security Standards.
type podStandard struct {
	*converter
	version        int // the minor version of Kubernetes
	spec, metadata expr
	exclusions     []kyvernov1.PodSecurityStandard // of the current control
}

// podCheck is a control: what has to hold for the Pod, and for each container.
type podCheck struct {
	control, message string
	// unless exempts some Pods; zero for none.
	unless          expr
	pod, containers []podField
	// lacking is the condition that a container that sets nothing violates the control; zero for never.
	lacking expr
}

// podField is a field of a Pod or a container. A field with items holds for each item of a list, which is the variable `item` in good and value.
type podField struct {
	name  string // below the Pod or the container
	good  expr
	value string // the value to which exclusions apply; empty if they apply to each
	items expr   // zero for none
	item  string
	// together: the items that are bad are one violation, which an exclusion exempts only as a whole.
	together bool
	several  bool // value is a list
}

// list returns a list of containers, which is empty where it is missing.
func (p *podStandard) list(name string) string {
	if name == "containers" && p.onlyPods() {
		return p.spec.field(name).text
	}
	return p.spec.optional(name).text + ".orValue([])"
}

// containerLists are the lists of containers of a Pod.
var containerLists = []string{"containers", "initContainers", "ephemeralContainers"}

// holds returns the condition that a Pod fulfils a control, apart from what the rule excludes.
func (p *podStandard) holds(check *podCheck) expr {
	out := yes
	for _, f := range check.pod {
		out = and(out, p.allowed(&f, "", check))
	}
	var of []expr
	same := true
	for _, list := range containerLists {
		one := yes
		for _, f := range check.containers {
			one = and(one, p.allowed(&f, list, check))
		}
		of, same = append(of, one), same && (len(of) == 0 || one == of[0])
	}
	switch {
	case same && of[0] != yes:
		out = and(out, member("variables.containers").macro("all", "c", of[0]))
	case !same:
		for i, list := range containerLists {
			if of[i] != yes {
				out = and(out, member(p.list(list)).macro("all", "c", of[i]))
			}
		}
	}
	if check.unless != (expr{}) && out != yes {
		out = or(check.unless, out)
	}
	return out
}

// allowed returns the condition that a field has an allowed value, or an exclusion exempts it. list is that of its container; empty for the Pod.
func (p *podStandard) allowed(f *podField, list string, check *podCheck) expr {
	var exempt, apart []expr
	for _, x := range p.exclusions {
		applies, covered := p.applies(&x, f, list, check), yes
		if applies == no {
			continue
		}
		if x.RestrictedField != "" && f.value != "" {
			covered = p.covered(f, x.Values)
		}
		exempt, apart = append(exempt, and(applies, covered)), append(apart, and(applies, p.each(f, or(f.good, covered))))
	}
	if f.together && len(exempt) > 1 {
		return or(append([]expr{p.each(f, f.good)}, apart...)...)
	}
	return p.each(f, or(append([]expr{f.good}, exempt...)...))
}

// covered returns the condition that the values of an exclusion match that of a field.
func (p *podStandard) covered(f *podField, values []string) expr {
	if !f.several {
		return p.anyGlob(member(f.value), values)
	}
	all := member(f.value).macro("all", "value", p.anyGlob(member("value"), values))
	if anyMatches(values, "") {
		return all
	}
	return and(comparison("size("+f.value+") > 0"), all)
}

// each returns the condition for all items of a field.
func (p *podStandard) each(f *podField, holds expr) expr {
	if f.items == (expr{}) || holds == yes {
		return holds
	}
	return f.items.macro("all", f.item, holds)
}

// applies returns the condition that an exclusion is about a field, whatever its value.
func (p *podStandard) applies(x *kyvernov1.PodSecurityStandard, f *podField, list string, check *podCheck) expr {
	name := "spec." + f.name
	switch {
	case list != "":
		name = "spec." + list + "[*]." + f.name
	case strings.HasPrefix(f.name, "metadata."):
		name = f.name
	}
	wanted := strings.NewReplacer(`"`, "", `'`, "").Replace(x.RestrictedField)
	if source, ok := strings.CutPrefix(wanted, "spec.volumes[*]."); ok && f.name == "volumes[*]" { // a type of volumes
		return member("volume").has(source)
	}
	if wanted != "" && wanted != name && !(strings.HasPrefix(name, "metadata.") && strings.HasPrefix(wanted, "metadata.annotations[container.apparmor.")) {
		return no
	}
	switch {
	case len(x.Images) == 0 && list == "":
		return yes
	case len(x.Images) == 0 && list == "containers" && check.lacking != (expr{}): // what a container lacks because the Pod does not set it
		if x.RestrictedField != "" && !anyMatches(x.Values, "") {
			return no
		}
		return check.lacking
	case len(x.Images) > 0 && list != "":
		return p.anyGlob(member(member("c").optional("image").text+".orValue('')"), x.Images)
	}
	return no
}

func anyMatches(patterns []string, text string) bool {
	for _, p := range patterns {
		if wildcard.Match(p, text) {
			return true
		}
	}
	return false
}

// checks returns the controls of the level baseline, or of all levels.
func (p *podStandard) checks(baseline bool) []podCheck {
	context := func(of expr, names ...string) expr {
		of = of.optional("securityContext")
		for _, n := range names {
			of = of.optional(n)
		}
		return of
	}
	or0 := func(e expr, value string) expr { return member(e.text + ".orValue(" + value + ")") }
	in := func(e expr, values ...string) expr { return comparison(e.text + " in " + list(values)) }
	c := member("c")
	// A flag that may not be true, and a text that may only have some values.
	flag := func(of expr, name string, names ...string) podField {
		return podField{name: name, good: not(or0(context(of, names...), "false")), value: "'true'"}
	}
	oneOf := func(of expr, name string, unset string, values []string, names ...string) podField {
		v := or0(context(of, names...), text(unset))
		return podField{name: name, good: in(v, values...), value: v.text}
	}
	spec := func(name string) expr { return p.spec.optional(name) }
	own := or0(spec("hostUsers"), "true") // a Pod in a user namespace has false
	inUserNamespace := expr{}
	if p.version >= 35 {
		inUserNamespace = not(own)
	}
	onWindows := expr{}
	if p.version >= 25 {
		onWindows = comparison(or0(spec("os").optional("name"), "''").text + " == 'windows'")
	}
	volumes := or0(spec("volumes"), "[]")
	const defaults = "securityContext."
	types := []string{"", "container_t", "container_init_t", "container_kvm_t"}
	if p.version >= 31 {
		types = append(types, "container_engine_t")
	}
	seLinux := func(of expr) []podField {
		out := []podField{oneOf(of, defaults+"seLinuxOptions.type", "", types, "seLinuxOptions", "type")}
		for _, name := range []string{"user", "role"} {
			v := or0(context(of, "seLinuxOptions", name), "''")
			out = append(out, podField{name: defaults + "seLinuxOptions." + name, good: comparison(v.text + " == ''"), value: v.text})
		}
		return out
	}
	profile := func(of expr, kind string) podField {
		return oneOf(of, defaults+kind+".type", "RuntimeDefault", []string{"RuntimeDefault", "Localhost"}, kind, "type")
	}
	added := func(allowed ...string) podField {
		return podField{name: defaults + "capabilities.add", good: in(member("added"), allowed...), value: "added", items: or0(context(c, "capabilities", "add"), "[]"), item: "added", together: true}
	}
	procMount := podField{name: defaults + "procMount", good: comparison(or0(context(c, "procMount"), "'Default'").text + " == 'Default'"), value: or0(context(c, "procMount"), "''").text}
	host := func(name string) podField {
		return podField{name: name, good: not(or0(spec(name), "false")), value: "'true'"}
	}
	annotation := member("annotation")
	annotations := or0(p.metadata.optional("annotations"), "{}")
	sysctls := []string{"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"}
	for _, later := range []struct {
		version int
		names   []string
	}{
		{27, []string{"net.ipv4.ip_local_reserved_ports"}},
		{29, []string{"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"}},
		{32, []string{"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}},
		{37, []string{"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}},
	} {
		if p.version >= later.version {
			sysctls = append(sysctls, later.names...)
		}
	}
	out := []podCheck{
		{control: "HostProcess", message: "Windows containers may not run as processes of the node (hostProcess)",
			pod:        []podField{flag(p.spec, defaults+"windowsOptions.hostProcess", "windowsOptions", "hostProcess")},
			containers: []podField{flag(c, defaults+"windowsOptions.hostProcess", "windowsOptions", "hostProcess")}},
		{control: "Host Namespaces", message: "hostNetwork, hostPID and hostIPC may not be true",
			pod: []podField{host("hostNetwork"), host("hostPID"), host("hostIPC")}},
		{control: "Privileged Containers", message: "containers may not be privileged",
			containers: []podField{flag(c, defaults+"privileged", "privileged")}},
		{control: "Capabilities", message: "containers may not add capabilities beyond the default set",
			containers: []podField{added("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT")}},
		{control: "HostPath Volumes", message: "volumes may not be of the type hostPath",
			pod: []podField{{name: "volumes[*].hostPath", items: volumes, item: "volume", good: not(member("volume").has("hostPath")), value: "volume.?hostPath.?path.orValue('')"}}},
		{control: "Host Ports", message: "containers may not have ports of the node (hostPort)",
			containers: []podField{{name: "ports[*].hostPort", items: or0(c.optional("ports"), "[]"), item: "port",
				good: comparison("port.?hostPort.orValue(0) == 0"), value: "string(port.?hostPort.orValue(0))"}}},
		{control: "AppArmor", message: "the AppArmor profile has to be RuntimeDefault or Localhost",
			pod: []podField{profile(p.spec, "appArmorProfile"), {name: "metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]", items: annotations, item: "annotation",
				good: or(not(member("annotation.startsWith('container.apparmor.security.beta.kubernetes.io/')")), in(annotations.at("annotation"), "", "runtime/default"),
					member(annotations.at(annotation.text).text+".startsWith('localhost/')")), value: annotations.at("annotation").text}},
			containers: []podField{profile(c, "appArmorProfile")}},
		{control: "SELinux", message: "the SELinux type has to be one of those made for containers, and user and role may not be set",
			pod: seLinux(p.spec), containers: seLinux(c)},
	}
	proc := podCheck{control: "/proc Mount Type", message: "procMount has to be Default", unless: inUserNamespace, containers: []podField{procMount}}
	if !baseline {
		proc.unless = expr{}
	}
	out = append(out, proc,
		podCheck{control: "Seccomp", message: "the seccomp profile has to be RuntimeDefault or Localhost",
			pod: []podField{profile(p.spec, "seccompProfile")}, containers: []podField{profile(c, "seccompProfile")}},
		podCheck{control: "Sysctls", message: "only safe sysctls are allowed",
			pod: []podField{{name: defaults + "sysctls[*].name", items: or0(context(p.spec, "sysctls"), "[]"), item: "sysctl", good: in(member("sysctl.name"), sysctls...), value: "sysctl.name"}}},
	)
	if p.version >= 34 {
		without := yes
		for _, at := range []string{"livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop"} {
			of := c
			for _, name := range strings.Split(at, ".") {
				of = of.optional(name)
			}
			for _, action := range []string{"httpGet", "tcpSocket"} {
				without = and(without, comparison(or0(of.optional(action).optional("host"), "''").text+" == ''"))
			}
		}
		out = append(out, podCheck{message: "probes and lifecycle handlers may not name a host", containers: []podField{{good: without}}})
	}
	if baseline {
		return out
	}
	var sources []expr
	for _, name := range []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"} {
		sources = append(sources, member("volume").has(name))
	}
	volumeTypes := podCheck{control: "Volume Types", message: "volumes have to be of the types configMap, csi, downwardAPI, emptyDir, ephemeral, image, persistentVolumeClaim, projected or secret",
		pod: []podField{{name: "volumes[*]", items: volumes, item: "volume", good: or(sources...)}}}
	escalation := or0(context(c, "allowPrivilegeEscalation"), "true")
	out = append(out, volumeTypes, podCheck{control: "Privilege Escalation", message: "allowPrivilegeEscalation has to be false", unless: onWindows,
		containers: []podField{{name: defaults + "allowPrivilegeEscalation", good: not(escalation), value: "(c.?securityContext.hasValue() ? (" + context(c, "allowPrivilegeEscalation").text + ".hasValue() ? 'true' : 'nil') : '')"}}})
	inherited := or0(context(p.spec, "runAsNonRoot"), "false")
	nonRoot := func(of expr, unset string) podField {
		set := context(of, "runAsNonRoot")
		return podField{name: defaults + "runAsNonRoot", good: or0(set, unset), value: "(" + set.text + ".hasValue() ? 'false' : '')"}
	}
	out = append(out, podCheck{control: "Running as Non-root", message: "runAsNonRoot has to be true, for the Pod or for each container", unless: inUserNamespace,
		pod: []podField{nonRoot(p.spec, "true")}, containers: []podField{nonRoot(c, inherited.text)}, lacking: not(inherited)})
	notRoot := func(of expr) podField {
		return podField{name: defaults + "runAsUser", good: comparison(or0(context(of, "runAsUser"), "1").text + " != 0"), value: "'0'"}
	}
	if p.version >= 23 {
		out = append(out, podCheck{control: "Running as Non-root user", message: "runAsUser may not be 0", unless: inUserNamespace, pod: []podField{notRoot(p.spec)}, containers: []podField{notRoot(c)}})
	}
	ofPod := or0(context(p.spec, "seccompProfile", "type"), "''")
	ofContainer := or0(context(c, "seccompProfile", "type"), ofPod.text)
	out = append(out, podCheck{control: "Seccomp", message: "the seccomp profile has to be set, for the Pod or for each container", unless: onWindows,
		pod: []podField{profile(p.spec, "seccompProfile")},
		containers: []podField{{name: defaults + "seccompProfile.type", good: in(ofContainer, "RuntimeDefault", "Localhost"),
			value: or0(context(c, "seccompProfile", "type"), "''").text}},
		lacking: not(in(ofPod, "RuntimeDefault", "Localhost"))})
	if p.version >= 22 {
		dropped := or0(context(c, "capabilities", "drop"), "[]")
		out = append(out, podCheck{control: "Capabilities", message: "containers have to drop ALL capabilities, and may add back only NET_BIND_SERVICE", unless: onWindows,
			containers: []podField{{name: defaults + "capabilities.drop", good: comparison("'ALL' in " + dropped.text), value: dropped.text, several: true}, added("NET_BIND_SERVICE")}})
	}
	return out
}
