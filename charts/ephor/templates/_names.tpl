{{/* Names. They do not depend on the release: policies, dashboards and scripts name the objects. */}}

{{- define "ephor.name" -}}
{{- default "kyverno" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ephor.fullname" -}}
{{- default (include "ephor.name" .) .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Helm's namespace, unless it was given none: `default` is no place for us. */}}
{{- define "ephor.namespace" -}}
{{- if .Values.namespaceOverride -}}
{{- .Values.namespaceOverride -}}
{{- else if eq .Release.Namespace "default" -}}
kyverno
{{- else -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "ephor.configName" -}}
{{- default (include "ephor.fullname" .) .Values.config.name -}}
{{- end -}}

{{- define "ephor.metricsConfigName" -}}
{{- default (printf "%s-metrics" (include "ephor.fullname" .)) .Values.metricsConfig.name -}}
{{- end -}}

{{/* (list $ "admission-controller") → the Deployment's name, and the account's unless it has one of its own */}}
{{- define "ephor.controllerName" -}}
{{- printf "%s-%s" (include "ephor.fullname" (index . 0)) (index . 1) -}}
{{- end -}}

{{- define "ephor.roleName" -}}
{{- printf "%s:%s" (include "ephor.fullname" (index . 0)) (index . 1) -}}
{{- end -}}

{{/* The values of a controller: (list $ "admission-controller") → admissionController, as YAML. */}}
{{- define "ephor.controllerValues" -}}
{{- toYaml (index (index . 0).Values (camelcase (index . 1 | replace "-" "_") | untitle)) -}}
{{- end -}}

{{/* The component whose Pods run a controller: (list $ "cleanup-controller") → admission-controller when one process does all */}}
{{- define "ephor.host" -}}
{{- ternary "admission-controller" (index . 1) (index . 0).Values.singleProcess.enabled -}}
{{- end -}}

{{/* Not empty for a controller that is enabled and has Pods of its own. */}}
{{- define "ephor.hasPods" -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
{{- if and (dig "enabled" true $values) (eq (include "ephor.host" .) (index . 1)) }}true{{ end -}}
{{- end -}}

{{/* The port of the cleanup controller's container. */}}
{{- define "ephor.cleanupPort" -}}
{{- int64 (default .Values.cleanupController.webhookServer.port .Values.cleanupController.server.port) -}}
{{- end -}}

{{- define "ephor.serviceAccountName" -}}
{{- $of := list (index . 0) (include "ephor.host" .) -}}
{{- $values := include "ephor.controllerValues" $of | fromYaml -}}
{{- default (include "ephor.controllerName" $of) $values.rbac.serviceAccount.name -}}
{{- end -}}

{{/* The full user name of a controller's account. */}}
{{- define "ephor.userName" -}}
{{- printf "system:serviceaccount:%s:%s" (include "ephor.namespace" (index . 0)) (include "ephor.serviceAccountName" .) -}}
{{- end -}}

{{/* (list $ "admission-controller") → the Service that the API server calls */}}
{{- define "ephor.serviceName" -}}
{{- if eq (index . 1) "admission-controller" -}}
{{- printf "%s-svc" (include "ephor.fullname" (index . 0)) -}}
{{- else -}}
{{- include "ephor.controllerName" . -}}
{{- end -}}
{{- end -}}

{{- define "ephor.metricsServiceName" -}}
{{- printf "%s-metrics" (include "ephor.serviceName" .) -}}
{{- end -}}

{{/* Secrets of the certificates: (list $ "admission-controller" "ca") and "pair" */}}
{{- define "ephor.certificateName" -}}
{{- printf "%s.%s.svc.kyverno-tls-%s" (include "ephor.serviceName" .) (include "ephor.namespace" (index . 0)) (index . 2) -}}
{{- end -}}

{{- define "ephor.image" -}}
{{- $image := .Values.image -}}
{{- $registry := default (default $image.defaultRegistry .Values.global.image.registry) $image.registry -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{/* Names that value files written for Kyverno's chart use in config.resourceFilters. */}}
{{- define "kyverno.fullname" }}{{ include "ephor.fullname" . }}{{ end -}}
{{- define "kyverno.namespace" }}{{ include "ephor.namespace" . }}{{ end -}}
{{- define "kyverno.config.configMapName" }}{{ include "ephor.configName" . }}{{ end -}}
{{- define "kyverno.config.metricsConfigMapName" }}{{ include "ephor.metricsConfigName" . }}{{ end -}}
{{- define "kyverno.admission-controller.name" }}{{ include "ephor.controllerName" (list . "admission-controller") }}{{ end -}}
{{- define "kyverno.admission-controller.roleName" }}{{ include "ephor.roleName" (list . "admission-controller") }}{{ end -}}
{{- define "kyverno.admission-controller.serviceAccountName" }}{{ include "ephor.serviceAccountName" (list . "admission-controller") }}{{ end -}}
{{- define "kyverno.admission-controller.serviceName" }}{{ include "ephor.serviceName" (list . "admission-controller") }}{{ end -}}
{{- define "kyverno.background-controller.name" }}{{ include "ephor.controllerName" (list . "background-controller") }}{{ end -}}
{{- define "kyverno.background-controller.roleName" }}{{ include "ephor.roleName" (list . "background-controller") }}{{ end -}}
{{- define "kyverno.background-controller.serviceAccountName" }}{{ include "ephor.serviceAccountName" (list . "background-controller") }}{{ end -}}
{{- define "kyverno.cleanup-controller.name" }}{{ include "ephor.controllerName" (list . "cleanup-controller") }}{{ end -}}
{{- define "kyverno.cleanup-controller.roleName" }}{{ include "ephor.roleName" (list . "cleanup-controller") }}{{ end -}}
{{- define "kyverno.cleanup-controller.serviceAccountName" }}{{ include "ephor.serviceAccountName" (list . "cleanup-controller") }}{{ end -}}
{{- define "kyverno.reports-controller.name" }}{{ include "ephor.controllerName" (list . "reports-controller") }}{{ end -}}
{{- define "kyverno.reports-controller.roleName" }}{{ include "ephor.roleName" (list . "reports-controller") }}{{ end -}}
{{- define "kyverno.reports-controller.serviceAccountName" }}{{ include "ephor.serviceAccountName" (list . "reports-controller") }}{{ end -}}
