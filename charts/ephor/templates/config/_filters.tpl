{{/* config.resourceFilters with what is added and removed, one entry per line. */}}
{{- define "ephor.resourceFilters" -}}
{{- $config := .Values.config -}}
{{- $filters := list -}}
{{- if $config.excludeKyvernoNamespace -}}
{{- $filters = append $filters (printf "[*/*,%s,*]" (include "ephor.namespace" .)) -}}
{{- end -}}
{{- range $config.resourceFilters -}}
{{- range splitList "\n" (tpl . $ | trim) -}}
{{- $filters = append $filters (trim .) -}}
{{- end -}}
{{- end -}}
{{- range $config.resourceFiltersInclude -}}
{{- $filters = append $filters (tpl . $) -}}
{{- end -}}
{{- range $config.resourceFiltersIncludeNamespaces -}}
{{- $filters = append $filters (printf "[*/*,%s,*]" .) -}}
{{- end -}}
{{- $removed := list -}}
{{- range $config.resourceFiltersExclude -}}
{{- $removed = append $removed (tpl . $) -}}
{{- end -}}
{{- range $config.resourceFiltersExcludeNamespaces -}}
{{- $removed = append $removed (printf "[*/*,%s,*]" .) -}}
{{- end -}}
{{- $kept := list -}}
{{- range $filters -}}
{{- if and . (not (has . $removed)) -}}
{{- $kept = append $kept . -}}
{{- end -}}
{{- end -}}
{{- join "\n" $kept -}}
{{- end -}}

{{/* The entries for the objects that this chart, and Kyverno's, make. */}}
{{- define "ephor.ownFilters" -}}
{{- $ns := include "ephor.namespace" . -}}
{{- $controllers := list "admission-controller" "background-controller" "cleanup-controller" "reports-controller" -}}
{{- range $c := $controllers }}
[ClusterRole,*,{{ include "ephor.roleName" (list $ $c) }}]
[ClusterRole,*,{{ include "ephor.roleName" (list $ $c) }}:core]
[ClusterRole,*,{{ include "ephor.roleName" (list $ $c) }}:additional]
{{- end }}
{{- range $c := $controllers }}
[ClusterRoleBinding,*,{{ include "ephor.roleName" (list $ $c) }}]
{{- end }}
{{- range $c := $controllers }}
[ServiceAccount,{{ $ns }},{{ include "ephor.serviceAccountName" (list $ $c) }}]
[ServiceAccount/?*,{{ $ns }},{{ include "ephor.serviceAccountName" (list $ $c) }}]
{{- end }}
{{- range $kind := list "Role" "RoleBinding" }}
{{- range $c := $controllers }}
[{{ $kind }},{{ $ns }},{{ include "ephor.roleName" (list $ $c) }}]
[{{ $kind }}/?*,{{ $ns }},{{ include "ephor.roleName" (list $ $c) }}]
{{- end }}
{{- end }}
{{- range $name := list (include "ephor.configName" .) (include "ephor.metricsConfigName" .) }}
[ConfigMap,{{ $ns }},{{ $name }}]
[ConfigMap/?*,{{ $ns }},{{ $name }}]
{{- end }}
{{- range $c := $controllers }}
[Deployment,{{ $ns }},{{ include "ephor.controllerName" (list $ $c) }}]
[Deployment/?*,{{ $ns }},{{ include "ephor.controllerName" (list $ $c) }}]
{{- end }}
{{- range $c := $controllers }}
[Pod,{{ $ns }},{{ include "ephor.controllerName" (list $ $c) }}-*]
[Pod/?*,{{ $ns }},{{ include "ephor.controllerName" (list $ $c) }}-*]
{{- end }}
[Job,{{ $ns }},{{ include "ephor.fullname" . }}-hook-pre-delete]
[Job/?*,{{ $ns }},{{ include "ephor.fullname" . }}-hook-pre-delete]
{{- range $kind := list "NetworkPolicy" "PodDisruptionBudget" }}
{{- range $c := $controllers }}
[{{ $kind }},{{ $ns }},{{ include "ephor.controllerName" (list $ $c) }}]
[{{ $kind }}/?*,{{ $ns }},{{ include "ephor.controllerName" (list $ $c) }}]
{{- end }}
{{- end }}
{{- range $c := $controllers }}
{{- if or (eq $c "admission-controller") (eq $c "cleanup-controller") }}
[Service,{{ $ns }},{{ include "ephor.serviceName" (list $ $c) }}]
[Service/?*,{{ $ns }},{{ include "ephor.serviceName" (list $ $c) }}]
{{- end }}
[Service,{{ $ns }},{{ include "ephor.metricsServiceName" (list $ $c) }}]
[Service/?*,{{ $ns }},{{ include "ephor.metricsServiceName" (list $ $c) }}]
{{- end }}
{{- range $c := $controllers }}
[ServiceMonitor,{{ $ns }},{{ include "ephor.metricsServiceName" (list $ $c) }}]
{{- end }}
[Secret,{{ $ns }},{{ include "ephor.serviceName" (list . "admission-controller") }}.{{ $ns }}.svc.*]
[Secret,{{ $ns }},{{ include "ephor.serviceName" (list . "cleanup-controller") }}.{{ $ns }}.svc.*]
{{- end -}}

{{/* config.webhooks, with our namespace left out, as JSON. */}}
{{- define "ephor.webhooks" -}}
{{- $webhooks := default dict .Values.config.webhooks -}}
{{- if kindIs "slice" $webhooks -}}
{{- if gt (len $webhooks) 1 -}}
{{- fail "config.webhooks: a list may have one element, the selectors of all webhooks of resources" -}}
{{- end -}}
{{- $webhooks = first $webhooks -}}
{{- end -}}
{{- if not (kindIs "map" $webhooks) -}}
{{- fail "config.webhooks must be a map with namespaceSelector and objectSelector, or a list with one such map" -}}
{{- end -}}
{{- $webhooks = deepCopy $webhooks -}}
{{- if .Values.config.excludeKyvernoNamespace -}}
{{- $selector := default dict $webhooks.namespaceSelector -}}
{{- $own := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list (include "ephor.namespace" .)) -}}
{{- $_ := set $selector "matchExpressions" (append (default list $selector.matchExpressions) $own) -}}
{{- $_ := set $webhooks "namespaceSelector" $selector -}}
{{- end -}}
{{- if $webhooks }}{{ toRawJson $webhooks }}{{ end -}}
{{- end -}}
