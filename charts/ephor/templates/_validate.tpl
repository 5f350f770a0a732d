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
{{- if and .Values.singleProcess.enabled .Values.cleanupController.enabled -}}
{{- $cleanup := .Values.cleanupController -}}
{{- if $cleanup.deadManSeconds -}}
{{- fail "cleanupController.deadManSeconds: the process that detects the loss of admission may not be the admission controller itself; set singleProcess.enabled=false" -}}
{{- end -}}
{{- range $what := list (list "service" "port") (list "certManager" "enabled") -}}
{{- if ne (toString (dig (first $what) (last $what) "" $cleanup)) (toString (dig (first $what) (last $what) "" $.Values.admissionController)) -}}
{{- fail (printf "singleProcess.enabled: %s has to be the same for admissionController and cleanupController" (join "." $what)) -}}
{{- end -}}
{{- end -}}
{{- if ne $cleanup.createSelfSignedCert .Values.admissionController.createSelfSignedCert -}}
{{- fail "singleProcess.enabled: createSelfSignedCert has to be the same for admissionController and cleanupController" -}}
{{- end -}}
{{- end -}}
{{- range $name := list "admissionController" "reportsController" -}}
{{- if and (include "ephor.decisionsKept" $) (not $.Values.reportsController.decisions.store) (eq (ternary "admissionController" "reportsController" $.Values.singleProcess.enabled) $name) (gt (int64 (default 1 (index $.Values $name).replicas)) 1) -}}
{{- fail (printf "reportsController.decisions: the store is a file of one Pod; set %s.replicas=1" $name) -}}
{{- end -}}
{{- end -}}
{{- if not (has (toString .Values.webhooks.secretPaths) (list "true" "false" "always")) -}}
{{- fail "webhooks.secretPaths must be true, false or always" -}}
{{- end -}}
{{- $patience := int64 .Values.cleanupController.deadManSeconds -}}
{{- if and (ne $patience 0) (lt $patience 30) -}}
{{- fail "cleanupController.deadManSeconds must be 0, for never, or at least 30: the next leader needs 14 seconds, and heartbeats come every ten" -}}
{{- end -}}
{{- range $name := list "admissionController" "backgroundController" "cleanupController" "reportsController" -}}
{{- $values := index $.Values $name -}}
{{- if and (not (kindIs "invalid" $values.replicas)) (lt (int64 $values.replicas) 1) -}}
{{- fail (printf "%s.replicas must be at least 1; to let everything pass for a while use `ephor unlock`" $name) -}}
{{- end -}}
{{- if and (dig "certManager" "enabled" false $values) (eq (toString (dig "certManager" "createSelfSignedIssuer" "" $values)) "false") (not $values.certManager.issuerRef) -}}
{{- fail (printf "%s.certManager: without createSelfSignedIssuer the issuer has to be named by issuerRef" $name) -}}
{{- end -}}
{{- if and (dig "certManager" "enabled" false $values) $values.createSelfSignedCert -}}
{{- fail (printf "%s: certManager.enabled and createSelfSignedCert are two sources of one certificate" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
