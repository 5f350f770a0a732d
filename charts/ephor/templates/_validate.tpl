{{/* What cannot be said in the schema. Every template that makes a Deployment calls it. */}}
{{- define "ephor.validate" -}}
{{- if eq (include "ephor.namespace" .) "kube-system" -}}
{{- fail "Ephor leaves kube-system alone and cannot live in it: choose another namespace" -}}
{{- end -}}
{{- if and .Values.crds.install (not .Values.crds.groups.kyverno.clusterpolicies) -}}
{{- fail "crds.groups.kyverno.clusterpolicies=false: the admission controller cannot do without this kind" -}}
{{- end -}}
{{- if and .Values.crds.install (not .Values.crds.groups.kyverno.policies) -}}
{{- fail "crds.groups.kyverno.policies=false: the admission controller cannot do without this kind" -}}
{{- end -}}
{{- range $name := list "admissionController" "backgroundController" "cleanupController" "reportsController" -}}
{{- $values := index $.Values $name -}}
{{- if and (not (kindIs "invalid" $values.replicas)) (lt (int64 $values.replicas) 1) -}}
{{- fail (printf "%s.replicas must be at least 1; to let everything pass for a while use `ephor unlock`" $name) -}}
{{- end -}}
{{- if and (dig "certManager" "enabled" false $values) $values.createSelfSignedCert -}}
{{- fail (printf "%s: certManager.enabled and createSelfSignedCert are two sources of one certificate" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
