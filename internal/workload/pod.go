package workload

import (
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// pod returns the Pod that a controller makes of the template.
func pod(template, direct, object map[string]any, placed bool) map[string]any {
	out := frame(template, object)
	actual, spec := member(object, "spec"), maps.Clone(member(template, "spec"))
	if spec == nil {
		return nil
	}
	podDefaults(spec, actual)
	account(spec, actual)
	priority(spec, actual)
	tolerations(spec, actual, direct)
	if placed {
		copyMember(spec, actual, "nodeName")
	}
	switch text(direct, "kind") {
	case "DaemonSet":
		node(spec, actual)
	case "StatefulSet":
		ordinal(spec, actual, direct, object)
	}
	out["spec"] = spec
	return out
}

// podDefaults adds the defaults that a Pod gets and a template does not: requests from limits, ports of the host's network, service links.
func podDefaults(spec, actual map[string]any) {
	if _, given := spec["enableServiceLinks"]; !given && actual["enableServiceLinks"] == true {
		spec["enableServiceLinks"] = true
	}
	for _, name := range []string{"containers", "initContainers"} {
		list, _ := spec[name].([]any)
		if list == nil {
			continue
		}
		list = slices.Clone(list)
		for i, c := range list {
			container, ok := c.(map[string]any)
			if !ok {
				continue
			}
			container = maps.Clone(container)
			if limits := member(container, "resources", "limits"); len(limits) > 0 {
				resources := maps.Clone(member(container, "resources"))
				requests := maps.Clone(limits)
				maps.Copy(requests, member(resources, "requests"))
				resources["requests"], container["resources"] = requests, resources
			}
			if spec["hostNetwork"] == true {
				hostPorts(container)
			}
			list[i] = container
		}
		spec[name] = list
	}
}

// hostPorts sets the ports of the host to those of the container.
func hostPorts(container map[string]any) {
	ports, _ := container["ports"].([]any)
	if ports == nil {
		return
	}
	ports = slices.Clone(ports)
	for i, p := range ports {
		if port, ok := p.(map[string]any); ok && port["hostPort"] == nil {
			port = maps.Clone(port)
			copyMember(port, map[string]any{"hostPort": port["containerPort"]}, "hostPort")
			ports[i] = port
		}
	}
	container["ports"] = ports
}

// The token of the service account, as the API server mounts it.
const (
	tokenVolume = "kube-api-access-"
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// account adds what the API server adds for the service account: its name, and its token.
func account(spec, actual map[string]any) {
	if text(spec, "serviceAccountName") == "" && text(actual, "serviceAccountName") == "default" {
		spec["serviceAccountName"] = "default"
	}
	if name := text(spec, "serviceAccountName"); name != "" && text(actual, "serviceAccount") == name {
		spec["serviceAccount"] = name
	}
	volumes, _ := actual["volumes"].([]any)
	given, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		if name := text(volume, "name"); strings.HasPrefix(name, tokenVolume) && isToken(volume) && !slices.ContainsFunc(given, func(v any) bool {
			other, _ := v.(map[string]any)
			return text(other, "name") == name
		}) {
			spec["volumes"] = append(slices.Clone(given), v)
			mountToken(spec, actual, name)
			return
		}
	}
}

// isToken reports whether the volume is the token of the service account, and nothing else.
func isToken(volume map[string]any) bool {
	sources, _ := member(volume, "projected")["sources"].([]any)
	if len(volume) != 2 || len(sources) != 3 || len(member(volume, "projected")) != 2 {
		return false
	}
	if mode, _ := value.Float(member(volume, "projected")["defaultMode"]); mode != 0o644 {
		return false
	}
	first, _ := sources[0].(map[string]any)
	token := member(first, "serviceAccountToken")
	seconds, _ := value.Float(token["expirationSeconds"])
	return len(first) == 1 && len(token) == 2 && text(token, "path") == "token" && seconds > 0 &&
		value.Equal(sources[1], map[string]any{"configMap": map[string]any{"name": "kube-root-ca.crt", "items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}}}}) &&
		value.Equal(sources[2], map[string]any{"downwardAPI": map[string]any{"items": []any{map[string]any{
			"path": "namespace", "fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"},
		}}}})
}

// mountToken adds the mount of the token to each container that has it.
func mountToken(spec, actual map[string]any, volume string) {
	mount := map[string]any{"mountPath": tokenPath, "name": volume, "readOnly": true}
	for _, kind := range []string{"containers", "initContainers"} {
		list, _ := spec[kind].([]any)
		others, _ := actual[kind].([]any)
		for i := range min(len(list), len(others)) { // podDefaults has copied the list and its containers
			container, _ := list[i].(map[string]any)
			other, _ := others[i].(map[string]any)
			mounts, _ := other["volumeMounts"].([]any)
			if container != nil && slices.ContainsFunc(mounts, func(m any) bool { return value.Equal(m, mount) }) {
				own, _ := container["volumeMounts"].([]any)
				container["volumeMounts"] = append(slices.Clone(own), mount)
			}
		}
	}
}

// priority adds the number that the API server resolves from the priority class. It does not accept another number.
func priority(spec, actual map[string]any) {
	if text(spec, "priorityClassName") != text(actual, "priorityClassName") {
		return
	}
	n, _ := value.Float(actual["priority"])
	if _, given := spec["priority"]; !given && (n == 0 || text(spec, "priorityClassName") != "") {
		copyMember(spec, actual, "priority")
	}
	if _, given := spec["preemptionPolicy"]; !given && (text(spec, "priorityClassName") != "" || text(actual, "preemptionPolicy") == "PreemptLowerPriority") {
		copyMember(spec, actual, "preemptionPolicy")
	}
}

// tolerated are the taints that the API server and the DaemonSet controller let Pods tolerate.
var tolerated = []string{
	"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/memory-pressure",
	"node.kubernetes.io/pid-pressure", "node.kubernetes.io/unschedulable", "node.kubernetes.io/network-unavailable",
}

// tolerations adds those tolerations of the Pod: of the first two taints for a time, of any for a DaemonSet.
func tolerations(spec, actual, direct map[string]any) {
	given, _ := spec["tolerations"].([]any)
	all, _ := actual["tolerations"].([]any)
	if len(all) <= len(given) {
		return
	}
	for i := range given {
		if !value.Equal(given[i], all[i]) {
			return
		}
	}
	for _, t := range all[len(given):] {
		toleration, _ := t.(map[string]any)
		at := slices.Index(tolerated, text(toleration, "key"))
		_, limited := toleration["tolerationSeconds"]
		if at < 0 || text(toleration, "operator") != "Exists" || toleration["value"] != nil {
			return
		}
		if text(direct, "kind") != "DaemonSet" && (at > 1 || !limited || text(toleration, "effect") != "NoExecute") {
			return
		}
	}
	spec["tolerations"] = all
}

// node adds the node for which a DaemonSet makes the Pod.
func node(spec, actual map[string]any) {
	wanted := member(actual, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	terms, _ := wanted["nodeSelectorTerms"].([]any)
	if len(wanted) != 1 || len(terms) != 1 {
		return
	}
	term, _ := terms[0].(map[string]any)
	fields, _ := term["matchFields"].([]any)
	if len(term) != 1 || len(fields) != 1 {
		return
	}
	field, _ := fields[0].(map[string]any)
	if values, _ := field["values"].([]any); text(field, "key") != "metadata.name" || text(field, "operator") != "In" || len(values) != 1 {
		return
	}
	affinity := maps.Clone(member(spec, "affinity"))
	if affinity == nil {
		affinity = map[string]any{}
	}
	of := maps.Clone(member(affinity, "nodeAffinity"))
	if of == nil {
		of = map[string]any{}
	}
	of["requiredDuringSchedulingIgnoredDuringExecution"], affinity["nodeAffinity"] = wanted, of
	spec["affinity"] = affinity
}

// ordinal adds what a StatefulSet gives to one of its Pods: its host name, and its volumes.
func ordinal(spec, actual, set, object map[string]any) {
	name := text(member(object, "metadata"), "name")
	if text(actual, "hostname") == name {
		spec["hostname"] = name
	}
	if service := text(member(set, "spec"), "serviceName"); text(actual, "subdomain") == service && service != "" {
		spec["subdomain"] = service
	}
	claims, _ := member(set, "spec")["volumeClaimTemplates"].([]any)
	if len(claims) == 0 {
		return
	}
	given, _ := spec["volumes"].([]any)
	byName := map[string]any{}
	for _, v := range given {
		volume, _ := v.(map[string]any)
		byName[text(volume, "name")] = v
	}
	for _, c := range claims {
		claim, _ := c.(map[string]any)
		of := text(member(claim, "metadata"), "name")
		byName[of] = map[string]any{"name": of, "persistentVolumeClaim": map[string]any{"claimName": of + "-" + name}}
	}
	// The controller writes the volumes of claims in no particular order.
	all, _ := actual["volumes"].([]any)
	var ordered []any
	for _, v := range all {
		volume, _ := v.(map[string]any)
		if own, known := byName[text(volume, "name")]; known {
			ordered = append(ordered, own)
			delete(byName, text(volume, "name"))
		}
	}
	if len(byName) == 0 {
		spec["volumes"] = ordered
	}
}
