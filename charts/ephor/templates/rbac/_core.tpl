{{/* What each controller may do, cluster-wide (core) and in our namespace (own). Nothing here lets a controller read or
write what only some policies need: that is for the roles that users aggregate. A feature that is switched off takes its
rights along; docs/security/rbac.md names the value of each. */}}

{{/* The kinds that all evaluators follow: (list $ "admission-controller"). Exceptions count only from a namespace that is named. */}}
{{- define "ephor.core.policies" -}}
{{- $exceptions := (include "ephor.features" . | fromYaml).policyExceptions -}}
- apiGroups: [kyverno.io]
  resources: [policies, clusterpolicies, {{ if and $exceptions.enabled $exceptions.namespace }}policyexceptions, {{ end }}globalcontextentries]
  verbs: [get, list, watch]
- apiGroups: [policies.kyverno.io]
  resources: [validatingpolicies, namespacedvalidatingpolicies, imagevalidatingpolicies, namespacedimagevalidatingpolicies, mutatingpolicies, namespacedmutatingpolicies, generatingpolicies, namespacedgeneratingpolicies{{ if and $exceptions.enabled $exceptions.namespace }}, policyexceptions{{ end }}]
  verbs: [get, list, watch]
{{- if and $exceptions.enabled $exceptions.namespace }}
# An exception that covers workloads is compared with the live controller of an object.
- apiGroups: [apps]
  resources: [daemonsets, deployments, replicasets, statefulsets]
  verbs: [get]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [get]
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [get]
# An exception's status says that it could not be evaluated.
- apiGroups: [kyverno.io, policies.kyverno.io]
  resources: [policyexceptions/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{/* Secrets of the own namespace for a controller without webhooks: (list $ "reports-controller"). It reads credentials and
creates its key; it renews a certificate if its metrics or its dashboard have one. */}}
{{- define "ephor.own.secrets" -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
- apiGroups: [""]
  resources: [secrets]
  {{- if or $values.metering.secure (and (dig "dashboard" "enabled" false $values) $values.dashboard.secure) (dig "decisions" "enabled" false $values) }}
  verbs: [create, delete, get, update]
  {{- else }}
  verbs: [create, get]
  {{- end }}
{{- end -}}

{{- define "ephor.core.admission-controller" -}}
{{- $features := include "ephor.features" (list . "admission-controller") | fromYaml -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  {{- if $features.generateValidatingAdmissionPolicy.enabled }}
  verbs: [create, delete, list, update]
  {{- else }}
  verbs: [delete, list] # what was generated before is removed
  {{- end }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingadmissionpolicies, mutatingadmissionpolicybindings]
  verbs: [create, delete, list, update]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, clusterroles, rolebindings, clusterrolebindings]
  verbs: [get, list, watch]
{{ include "ephor.core.policies" (list . "admission-controller") }}
- apiGroups: [kyverno.io]
  resources: [policies/status, clusterpolicies/status, globalcontextentries/status]
  verbs: [get, patch, update]
- apiGroups: [policies.kyverno.io]
  resources: [validatingpolicies/status, namespacedvalidatingpolicies/status, imagevalidatingpolicies/status, namespacedimagevalidatingpolicies/status, mutatingpolicies/status, namespacedmutatingpolicies/status, generatingpolicies/status, namespacedgeneratingpolicies/status]
  verbs: [get, patch, update]
- apiGroups: [kyverno.io]
  resources: [updaterequests, updaterequests/status]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
{{- if $features.admissionReports.enabled }}
- apiGroups: [reports.kyverno.io] # results for the reports controller; they are listed to be counted
  resources: [ephemeralreports, clusterephemeralreports]
  verbs: [create, get, list, update]
{{- end }}
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
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
  verbs: [create, get, list, patch, update, watch]
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
  resources: [globalcontextentries]
  verbs: [get, list, watch]
# A run begins with a write to the policy.
- apiGroups: [kyverno.io]
  resources: [cleanuppolicies, clustercleanuppolicies]
  verbs: [get, list, patch, watch]
- apiGroups: [kyverno.io]
  resources: [cleanuppolicies/status, clustercleanuppolicies/status]
  verbs: [get, patch, update]
- apiGroups: [policies.kyverno.io]
  resources: [deletingpolicies, namespaceddeletingpolicies]
  verbs: [get, list, patch, watch]
{{- $exceptions := (include "ephor.features" (list . "cleanup-controller") | fromYaml).policyExceptions }}
{{- if and $exceptions.enabled $exceptions.namespace }}
- apiGroups: [policies.kyverno.io]
  resources: [policyexceptions]
  verbs: [get, list, watch]
- apiGroups: [policies.kyverno.io]
  resources: [policyexceptions/status]
  verbs: [patch]
{{- end }}
- apiGroups: [policies.kyverno.io]
  resources: [deletingpolicies/status, namespaceddeletingpolicies/status]
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
  verbs: [create, delete, get, list, update, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.core.background-controller" -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
{{ include "ephor.core.policies" (list . "background-controller") }}
# The policies' status says that work used up a budget.
- apiGroups: [kyverno.io]
  resources: [policies/status, clusterpolicies/status]
  verbs: [patch]
- apiGroups: [kyverno.io]
  resources: [updaterequests, updaterequests/status]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
- apiGroups: [reports.kyverno.io] # results for the reports controller; they are listed to be counted
  resources: [ephemeralreports, clusterephemeralreports]
  verbs: [create, get, list, update]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.own.background-controller" -}}
{{ include "ephor.own.secrets" (list . "background-controller") }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [""] # the generate rules that were last seen, and what they made
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [ephor-executed-work, ephor-generate-rules, ephor-generated-0, ephor-generated-1, ephor-generated-2, ephor-generated-3, ephor-generated-4, ephor-generated-5, ephor-generated-6, ephor-generated-7]
  verbs: [update]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, delete, get, list, update, watch]
{{- end -}}

{{- define "ephor.core.reports-controller" -}}
{{- $features := include "ephor.features" (list . "reports-controller") | fromYaml -}}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
{{- if .Values.openreports.enabled }}
- apiGroups: [openreports.io]
  resources: [reports, clusterreports]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
{{- else }}
- apiGroups: [wgpolicyk8s.io]
  resources: [policyreports, clusterpolicyreports]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
{{- end }}
{{- if and $features.policyReports.enabled $features.aggregateReports.enabled (or $features.admissionReports.enabled $features.backgroundScan.enabled .Values.singleProcess.enabled) }}
- apiGroups: [reports.kyverno.io]
  resources: [ephemeralreports, clusterephemeralreports]
  verbs: [create, delete, deletecollection, get, list, patch, update, watch]
{{- end }}
{{ include "ephor.core.policies" (list . "reports-controller") }}
# The policies' status lists what scans leave out.
- apiGroups: [kyverno.io]
  resources: [policies/status, clusterpolicies/status]
  verbs: [patch]
{{- if $features.validatingAdmissionPolicyReports.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  verbs: [get, list, watch]
{{- end }}
{{- if $features.mutatingAdmissionPolicyReports.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingadmissionpolicies, mutatingadmissionpolicybindings]
  verbs: [get, list, watch]
{{- end }}
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch, update]
- apiGroups: [""]
  resources: [configmaps, namespaces]
  verbs: [get, list, watch]
{{- end -}}

{{- define "ephor.own.reports-controller" -}}
{{ include "ephor.own.secrets" (list . "reports-controller") }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, delete, get, list, patch, update]
{{- end -}}
