{{/* What each controller may do, cluster-wide (core) and in our namespace (own). Nothing here lets a controller read or
write what only some policies need: that is for the roles that users aggregate. */}}

{{- define "ephor.core.admission-controller" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, clusterroles, rolebindings, clusterrolebindings]
  verbs: [get, list, watch]
- apiGroups: [kyverno.io]
  resources: [policies, clusterpolicies, policyexceptions, globalcontextentries]
  verbs: [get, list, watch]
- apiGroups: [kyverno.io]
  resources: [policies/status, clusterpolicies/status, globalcontextentries/status]
  verbs: [get, patch, update]
- apiGroups: [kyverno.io]
  resources: [updaterequests, updaterequests/status]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, get, list, patch, update, watch]
{{- end -}}

{{- define "ephor.own.admission-controller" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, delete, get, list, patch, update, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, delete, get, list, patch, update, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.core.cleanup-controller" -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [create, delete, get, list, patch, update, watch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  verbs: [get, list, watch]
- apiGroups: [kyverno.io]
  resources: [cleanuppolicies, clustercleanuppolicies, globalcontextentries]
  verbs: [get, list, watch]
- apiGroups: [kyverno.io]
  resources: [cleanuppolicies/status, clustercleanuppolicies/status]
  verbs: [get, patch, update]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.own.cleanup-controller" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, delete, get, list, patch, update, watch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, delete, get, list, patch, update, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.core.background-controller" -}}
- apiGroups: [kyverno.io]
  resources: [policies, clusterpolicies, policyexceptions, globalcontextentries]
  verbs: [get, list, watch]
- apiGroups: [kyverno.io]
  resources: [updaterequests, updaterequests/status]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.own.background-controller" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, delete, get, patch, update]
{{- end -}}

{{- define "ephor.core.reports-controller" -}}
- apiGroups: [kyverno.io]
  resources: [policies, clusterpolicies, policyexceptions, globalcontextentries]
  verbs: [get, list, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.own.reports-controller" -}}
{{ include "ephor.own.background-controller" . }}
{{- end -}}
