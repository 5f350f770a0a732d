{{/* The labels that selectors use; they are those of Kyverno's chart, so that a release can be upgraded in place. */}}
{{- define "ephor.matchLabels" -}}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/part-of: {{ include "ephor.fullname" (index . 0) }}
{{- end -}}

{{/* (list $ "admission-controller") → all labels of an object of this component */}}
{{- define "ephor.labels" -}}
{{- $root := index . 0 -}}
{{ include "ephor.matchLabels" . }}
app.kubernetes.io/name: {{ include "ephor.name" $root }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
