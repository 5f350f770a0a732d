{{/* Not empty where the dashboard is served to more than the Pod itself. */}}
{{- define "ephor.dashboardOpen" -}}
{{- with .Values.reportsController }}
{{- if and .enabled .dashboard.enabled .dashboard.address }}true{{ end -}}
{{- end }}
{{- end -}}

{{- define "ephor.dashboardName" -}}
{{- printf "%s-dashboard" (include "ephor.controllerName" (list . "reports-controller")) -}}
{{- end -}}

{{- define "ephor.dashboardFlags" -}}
{{- $name := include "ephor.dashboardName" . -}}
{{- with .Values.reportsController.dashboard -}}
- --dashboard
- --dashboardPort={{ int64 .port }}
{{- if .address }}
- {{ printf "--dashboardAddress=%s" .address | quote }}{{/* `::` alone would make a map */}}
{{- if .secure }}
- --dashboardService={{ $name }}
- --dashboardCASecretName={{ $name }}.kyverno-tls-ca
- --dashboardTLSSecretName={{ $name }}.kyverno-tls-pair
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
