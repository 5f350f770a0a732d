package kinds

import (
	"maps"
	"slices"
	"strings"
)

// clusterScoped are the cluster-scoped kinds of the Kubernetes API, by group.
var clusterScoped = map[string][]string{
	"": {"Namespace", "Node", "PersistentVolume", "ComponentStatus"},
	"admissionregistration.k8s.io": {
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
	},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"authentication.k8s.io":        {"TokenReview", "SelfSubjectReview"},
	"authorization.k8s.io":         {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"internal.apiserver.k8s.io":    {"StorageVersion"},
	"networking.k8s.io":            {"IngressClass", "IPAddress", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"policy":                       {"PodSecurityPolicy"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "DeviceTaintRule", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
	"storagemigration.k8s.io":      {"StorageVersionMigration"},
}

// ClusterScoped reports whether the kind is a known cluster-scoped kind.
func ClusterScoped(apiVersion, kind string) bool {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group = ""
	}
	for _, k := range clusterScoped[group] {
		if k == kind {
			return true
		}
	}
	return false
}

// kubernetesGroups are the API groups of Kubernetes itself that are not in clusterScoped.
var kubernetesGroups = []string{"apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "extensions", "lifecycle.k8s.io"}

// KubernetesGroup reports whether the API group is one of Kubernetes itself; "" is the core group.
func KubernetesGroup(group string) bool {
	if _, ok := clusterScoped[group]; ok {
		return true
	}
	return slices.Contains(kubernetesGroups, group)
}

// Groups are the groups that have cluster-scoped kinds.
func Groups() []string { return slices.Sorted(maps.Keys(clusterScoped)) }
