
{{/* Not empty where the reports controller keeps decisions. */}}
{{- define "ephor.decisionsKept" -}}
{{- with .Values.reportsController }}
{{- if and .enabled .decisions.enabled }}true{{ end -}}
{{- end }}
{{- end -}}

{{- define "ephor.decisionsName" -}}
{{- printf "%s-decisions" (include "ephor.controllerName" (list . "reports-controller")) -}}
{{- end -}}

{{- define "ephor.decisionsFlags" -}}
{{- $name := include "ephor.decisionsName" . -}}
{{- with .Values.reportsController.decisions -}}
- {{ printf "--decisionsStore=%s" (default "sqlite:/decisions/decisions.db" .store) | quote }}
- --decisionsStoreSize={{ int64 .maxBytes }}
- --decisionsStoreAge={{ .maxAge }}
- --decisionsStorePort={{ int64 .port }}
- --decisionsStoreService={{ $name }}
- --decisionsStoreCASecretName={{ $name }}.kyverno-tls-ca
- --decisionsStoreTLSSecretName={{ $name }}.kyverno-tls-pair
{{- end }}
{{- end -}}

{{/* The volume of the store, for the Pods of (list $ "reports-controller"); or nothing. */}}
{{- define "ephor.decisionsVolume" -}}
{{- $root := index . 0 -}}
{{- if and (include "ephor.decisionsKept" $root) (not $root.Values.reportsController.decisions.store) (eq (index . 1) (include "ephor.host" (list $root "reports-controller"))) -}}
{{- with $root.Values.reportsController.decisions.persistence -}}
{{- if .enabled -}}
persistentVolumeClaim:
  claimName: {{ default (include "ephor.decisionsName" $root) .existingClaim }}
{{- else -}}
emptyDir:
  sizeLimit: {{ .size }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What makes the claim of the store writable for the user of the image: the security context of the Pods of (list $ "reports-controller"); or nothing. */}}
{{- define "ephor.decisionsGroup" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- with $root.Values.reportsController.decisions.persistence -}}
{{- if and .enabled (not (kindIs "invalid" .fsGroup)) (include "ephor.decisionsVolume" (list $root $component)) -}}
fsGroup: {{ int64 .fsGroup }}
fsGroupChangePolicy: OnRootMismatch
{{- end -}}
{{- end -}}
{{- end -}}
