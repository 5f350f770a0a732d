package pss

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions below decode only the fields that checks read: converting whole pods costs more than checking them. The
// types were checked before, so a value of another type counts as absent.

func mapAt(m map[string]any, key string) map[string]any { v, _ := m[key].(map[string]any); return v }
func listAt(m map[string]any, key string) []any         { v, _ := m[key].([]any); return v }
func textAt(m map[string]any, key string) string        { v, _ := m[key].(string); return v }

// All pods share the values that the pointers point to, so do not change a decoded pod.
var yes, no = true, false

func boolAt(m map[string]any, key string) *bool {
	switch b, ok := m[key].(bool); {
	case !ok:
		return nil
	case b:
		return &yes
	}
	return &no
}

func intAt(m map[string]any, key string) (int64, bool) {
	switch n := m[key].(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}

// decodeMeta decodes the annotations that had the role of fields.
func decodeMeta(out *metav1.ObjectMeta, m map[string]any) {
	for key, v := range mapAt(m, "annotations") {
		if !strings.Contains(key, ".kubernetes.io/") {
			continue
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key], _ = v.(string)
	}
}

func decodeSpec(out *corev1.PodSpec, m map[string]any) {
	if m == nil {
		return
	}
	out.HostNetwork = isTrue(boolAt(m, "hostNetwork"))
	out.HostPID = isTrue(boolAt(m, "hostPID"))
	out.HostIPC = isTrue(boolAt(m, "hostIPC"))
	out.HostUsers = boolAt(m, "hostUsers")
	if os := mapAt(m, "os"); os != nil {
		out.OS = &corev1.PodOS{Name: corev1.OSName(textAt(os, "name"))}
	}
	if sc := mapAt(m, "securityContext"); sc != nil {
		out.SecurityContext = podSecurityContext(sc)
	}
	out.Volumes = volumes(listAt(m, "volumes"))
	out.InitContainers = containers(listAt(m, "initContainers"))
	out.Containers = containers(listAt(m, "containers"))
	if list := containers(listAt(m, "ephemeralContainers")); list != nil {
		out.EphemeralContainers = make([]corev1.EphemeralContainer, len(list))
		for i := range list {
			out.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(list[i])
		}
	}
}

// containers decodes a list of containers; a null entry is a container without any fields.
func containers(list []any) []corev1.Container {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(list))
	for i, v := range list {
		m, _ := v.(map[string]any)
		c := &out[i]
		c.Name, c.Image = textAt(m, "name"), textAt(m, "image")
		c.Ports = ports(listAt(m, "ports"))
		if sc := mapAt(m, "securityContext"); sc != nil {
			c.SecurityContext = securityContext(sc)
		}
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe(m, "livenessProbe"), probe(m, "readinessProbe"), probe(m, "startupProbe")
		if l := mapAt(m, "lifecycle"); l != nil {
			c.Lifecycle = &corev1.Lifecycle{PostStart: lifecycle(l, "postStart"), PreStop: lifecycle(l, "preStop")}
		}
	}
	return out
}

// ports decodes the ports of a container; nil unless one of them is a port of the node.
func ports(list []any) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for i, v := range list {
		m, _ := v.(map[string]any)
		if n, _ := intAt(m, "hostPort"); n != 0 {
			if out == nil {
				out = make([]corev1.ContainerPort, len(list))
			}
			out[i].HostPort = int32(n)
		}
	}
	return out
}

// probe decodes a probe; nil unless it names a host, since the checks ignore probes without one.
func probe(m map[string]any, key string) *corev1.Probe {
	http, tcp := hosts(mapAt(m, key))
	if http == nil && tcp == nil {
		return nil
	}
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: http, TCPSocket: tcp}}
}

func lifecycle(m map[string]any, key string) *corev1.LifecycleHandler {
	http, tcp := hosts(mapAt(m, key))
	if http == nil && tcp == nil {
		return nil
	}
	return &corev1.LifecycleHandler{HTTPGet: http, TCPSocket: tcp}
}

func hosts(m map[string]any) (http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
	if m == nil {
		return nil, nil
	}
	if host := textAt(mapAt(m, "httpGet"), "host"); host != "" {
		http = &corev1.HTTPGetAction{Host: host}
	}
	if host := textAt(mapAt(m, "tcpSocket"), "host"); host != "" {
		tcp = &corev1.TCPSocketAction{Host: host}
	}
	return http, tcp
}

func volumes(list []any) []corev1.Volume {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.Volume, len(list))
	for i, v := range list {
		m, _ := v.(map[string]any)
		for key, source := range m {
			if fields, ok := source.(map[string]any); ok {
				setSource(&out[i], key, fields)
			}
		}
		out[i].Name = textAt(m, "name")
	}
	return out
}

// anySource stands for all sources that are allowed on every level.
var anySource = corev1.VolumeSource{
	EmptyDir: &corev1.EmptyDirVolumeSource{}, ConfigMap: &corev1.ConfigMapVolumeSource{}, Secret: &corev1.SecretVolumeSource{},
	Projected: &corev1.ProjectedVolumeSource{}, PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{},
	DownwardAPI: &corev1.DownwardAPIVolumeSource{}, CSI: &corev1.CSIVolumeSource{},
	Ephemeral: &corev1.EphemeralVolumeSource{}, Image: &corev1.ImageVolumeSource{},
}

// setSource sets which source a volume has. Its content does not matter, except for the path of the node.
func setSource(v *corev1.Volume, key string, fields map[string]any) {
	switch key {
	case "hostPath":
		v.HostPath = &corev1.HostPathVolumeSource{Path: textAt(fields, "path")}
	case "emptyDir":
		v.EmptyDir = anySource.EmptyDir
	case "configMap":
		v.ConfigMap = anySource.ConfigMap
	case "secret":
		v.Secret = anySource.Secret
	case "projected":
		v.Projected = anySource.Projected
	case "persistentVolumeClaim":
		v.PersistentVolumeClaim = anySource.PersistentVolumeClaim
	case "downwardAPI":
		v.DownwardAPI = anySource.DownwardAPI
	case "csi":
		v.CSI = anySource.CSI
	case "ephemeral":
		v.Ephemeral = anySource.Ephemeral
	case "image":
		v.Image = anySource.Image
	default:
		for _, s := range volumeSources {
			if s.field == key && s.set != nil {
				s.set(v)
			}
		}
	}
}
