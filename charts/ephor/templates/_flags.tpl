{{/* The features of a controller, its own first: (list $ "admission-controller") */}}
{{- define "ephor.features" -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
{{- toYaml (mergeOverwrite (deepCopy (index . 0).Values.features) (default dict $values.featuresOverride)) -}}
{{- end -}}

{{/* Flags of every controller: logs, metrics, traces. */}}
{{- define "ephor.commonFlags" -}}
{{- $root := index . 0 -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
{{- $features := include "ephor.features" . | fromYaml -}}
- --v={{ $features.logging.verbosity }}
- --loggingFormat={{ $features.logging.format }}
- --resyncPeriod={{ default $root.Values.global.resyncPeriod $values.resyncPeriod }}
{{- with $values.metering }}
{{- if .disabled }}
- --disableMetrics
{{- else }}
- --otelConfig={{ .config }}
- --metricsPort={{ .port }}
{{- if .collector }}
- --otelCollector={{ .collector }}
{{- end }}
{{- if .creds }}
- --transportCreds={{ .creds }}
{{- end }}
{{- if .secure }}
- --metricsCASecretName={{ include "ephor.controllerName" $ }}.{{ include "ephor.namespace" $root }}.metering.kyverno-tls-ca
- --metricsTLSSecretName={{ include "ephor.controllerName" $ }}.{{ include "ephor.namespace" $root }}.metering.kyverno-tls-pair
{{- if ne .tlsKeyAlgorithm "RSA" }}
- --metricsKeyAlgorithm={{ .tlsKeyAlgorithm }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- with $values.tracing }}
{{- if .enabled }}
- --enableTracing
- --tracingAddress={{ default "" .address }}
- --tracingPort={{ default 4317 .port }}
{{- if .creds }}
- --tracingCreds={{ .creds }}
{{- end }}
{{- end }}
{{- end }}
{{- with $values.profiling }}
{{- if .enabled }}
- --profile
- --profilePort={{ .port }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Flags of the controllers that serve webhooks. */}}
{{- define "ephor.webhookFlags" -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
- --caSecretName={{ include "ephor.certificateName" (append . "ca") }}
- --tlsSecretName={{ include "ephor.certificateName" (append . "pair") }}
- --servicePort={{ $values.service.port }}
- --tlsKeyAlgorithm={{ $values.tlsKeyAlgorithm }}
{{- with (index . 0).Values.webhooks }}
{{- if ne (toString .secretPaths) "true" }}
- --webhookSecretPaths={{ .secretPaths }}
{{- end }}
{{- end }}
{{- if or $values.certManager.enabled $values.createSelfSignedCert }}
- --disableCertManagerController
{{- end }}
{{- end -}}

{{/* Flags of the controllers that apply exceptions: (list $ "admission-controller") */}}
{{- define "ephor.exceptionFlags" -}}
{{- $features := include "ephor.features" . | fromYaml -}}
- --enablePolicyException={{ $features.policyExceptions.enabled }}
{{- with $features.policyExceptions.namespace }}
- --exceptionNamespace={{ . }}
{{- end }}
{{- if $features.policyExceptions.approval }}
- --exceptionApproval
{{- end }}
{{- end -}}

{{/* Flags of the controllers that evaluate policies: (list $ "admission-controller") */}}
{{- define "ephor.evaluatorFlags" -}}
{{- $root := index . 0 -}}
{{- $features := include "ephor.features" . | fromYaml -}}
{{ include "ephor.exceptionFlags" . }}
{{- $rules := list }}
{{- range $rule := list "validate" "mutate" "mutateExisting" "generate" "imageVerify" }}
{{- if index $features.reporting $rule }}{{ $rules = append $rules $rule }}{{ end }}
{{- end }}
- --enableReporting={{ join "," $rules }}
{{- with $features.reporting.allowedResults }}
- --allowedResults={{ join "," . }}
{{- end }}
{{- with $features.omitEvents.eventTypes }}
- --omitEvents={{ join "," . }}
{{- end }}
{{- with $features.globalContext }}
- --apiCallTimeout={{ .apiCallTimeout }}
- --maxAPICallResponseLength={{ int64 .maxApiCallResponseLength }}
- --maxGlobalContextEntries={{ int64 .maxGlobalContextEntries }}
{{- end }}
{{- with $root.Values.apiCallToken.hosts }}
- --serviceTokenFile=/var/run/secrets/kyverno/apicall/token
- --serviceTokenHosts={{ join "," . }}
{{- end }}
- --allowInsecureRegistry={{ $features.registryClient.allowInsecure }}
{{- with $features.registryClient.credentialHelpers }}
- --registryCredentialHelpers={{ join "," . }}
{{- end }}
{{- if $features.registryClient.namespacedPoliciesUseOperatorLogin }}
- --namespacedPoliciesUseOperatorLogin
{{- end }}
{{- with $features.registryClient.proxy }}
- --registryProxy={{ . }}
{{- end }}
{{- with $features.offlineTrust }}
{{- if .enabled }}
- --offlineTrust{{ if .configMap }}=/etc/ephor/trust/trusted_root.json{{ end }}
{{- end }}
{{- end }}
{{- with $features.tuf }}
{{- if .enabled }}
- --enableTuf
{{- with .mirror }}
- --tufMirror={{ . }}
{{- end }}
{{- with .root }}
- --tufRoot={{ . }}
{{- end }}
{{- with .rootRaw }}
- --tufRootRaw={{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- with include "ephor.pullSecrets" . | fromYamlArray }}
{{- $names := list }}
{{- range . }}{{ $names = append $names .name }}{{ end }}
- --imagePullSecrets={{ join "," $names }}
{{- end }}
{{- end -}}

{{- define "ephor.admissionFlags" -}}
{{- $features := include "ephor.features" (list . "admission-controller") | fromYaml -}}
- --webhookServerPort={{ .Values.admissionController.webhookServer.port }}
{{ include "ephor.admissionReportsFlag" (list . "admission-controller") }}
- --maxAdmissionReports={{ int64 $features.admissionReports.backPressureThreshold }}
- --autoUpdateWebhooks={{ $features.autoUpdateWebhooks.enabled }}
- --excludeBootstrapResources={{ $features.excludeBootstrapResources.enabled }}
- --deriveMatchConditions={{ $features.deriveMatchConditions.enabled }}
- --podSubresources={{ $features.podSubresources.enabled }}
- --generateValidatingAdmissionPolicy={{ $features.generateValidatingAdmissionPolicy.enabled }}
{{- if $features.generateMutatingAdmissionPolicy.enabled }}
- --generateMutatingAdmissionPolicy
{{- end }}
{{- if $features.forceFailurePolicyIgnore.enabled }}
- --forceFailurePolicyIgnore
{{- end }}
{{- if $features.protectManagedResources.enabled }}
- --protectManagedResources
{{- end }}
{{- if $features.dumpPayload.enabled }}
- --dumpPayload
{{- end }}
{{- $kept := include "ephor.decisionsKept" . -}}
{{- $store := include "ephor.decisionsName" . -}}
{{- with $features.decisions }}
{{- if or .to $kept }}
{{- if .to }}
- --decisions={{ .to }}
{{- else }}
- --decisions=https://{{ $store }}.{{ include "ephor.namespace" $ }}.svc:9445
- --decisionsCASecretName={{ $store }}.kyverno-tls-ca
- --decisionsTLSSecretName={{ $store }}-sender.kyverno-tls-pair
{{- end }}
- --decisionsShare={{ join "," .shares }}
- --decisionsUsers={{ .users }}
- --decisionsRequests={{ .requests }}
- --decisionsLookups={{ and .requests .lookups }}
- --redact={{ join "," .redact }}
{{- end }}
{{- end }}
{{- if .Values.reportsController.enabled }}
- --reportsServiceAccountName={{ include "ephor.userName" (list . "reports-controller") }}
{{- end }}
{{- if .Values.backgroundController.enabled }}
- --backgroundServiceAccountName={{ include "ephor.userName" (list . "background-controller") }}
{{- end }}
{{- with .Values.admissionController.clientCAFile }}
- --client-ca-file={{ . }}
{{- end }}
{{- end -}}

{{/* Whether results of admission are sent, and taken. */}}
{{- define "ephor.admissionReportsFlag" -}}
- --admissionReports={{ (include "ephor.features" . | fromYaml).admissionReports.enabled }}
{{- end -}}

{{/* Flags of the reports controller alone, in a process of its own or not. */}}
{{- define "ephor.reportsFlags" -}}
{{- $features := include "ephor.features" (list . "reports-controller") | fromYaml -}}
- --policyReports={{ $features.policyReports.enabled }}
- --aggregateReports={{ $features.aggregateReports.enabled }}
{{- if $.Values.openreports.enabled }}
- --openreportsEnabled
{{- end }}
- --validatingAdmissionPolicyReports={{ $features.validatingAdmissionPolicyReports.enabled }}
- --mutatingAdmissionPolicyReports={{ $features.mutatingAdmissionPolicyReports.enabled }}
{{- with $features.backgroundScan }}
- --backgroundScan={{ .enabled }}
- --backgroundScanWorkers={{ int64 .backgroundScanWorkers }}
- --backgroundScanInterval={{ .backgroundScanInterval }}
- --skipResourceFilters={{ .skipResourceFilters }}
{{- end }}
{{- if not .Values.reportsController.sanityChecks }}
- --reportsCRDsSanityChecks=false
{{- end }}
{{- if .Values.reportsController.dashboard.enabled }}
{{ include "ephor.dashboardFlags" . }}
{{- end }}
{{- if include "ephor.decisionsKept" . }}
{{ include "ephor.decisionsFlags" . }}
{{- end }}
{{- end -}}

{{/* What `controller all` needs beside the flags of admission, which hold for all controllers. */}}
{{- define "ephor.singleProcessFlags" -}}
{{- $without := list -}}
{{- range $name := list "background" "reports" "cleanup" -}}
{{- if not (index $.Values (printf "%sController" $name)).enabled }}{{ $without = append $without $name }}{{ end -}}
{{- end -}}
{{- if .Values.reportsController.enabled -}}
{{ include "ephor.reportsFlags" . }}
{{ end -}}
{{- with $without -}}
- --without={{ join "," . }}
{{ end -}}
{{- if .Values.cleanupController.enabled -}}
{{- $of := list . "cleanup-controller" -}}
{{- $features := include "ephor.features" $of | fromYaml -}}
- --cleanupService={{ include "ephor.serviceName" $of }}
- --cleanupServerPort={{ .Values.singleProcess.cleanupPort }}
- --cleanupCASecretName={{ include "ephor.certificateName" (append $of "ca") }}
- --cleanupTLSSecretName={{ include "ephor.certificateName" (append $of "pair") }}
- --ttlReconciliationInterval={{ $features.ttlController.reconciliationInterval }}
{{- with .Values.cleanupController.maxDeletionsPerRun }}
- --maxDeletionsPerRun={{ int64 . }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "ephor.cleanupFlags" -}}
{{- $features := include "ephor.features" (list . "cleanup-controller") | fromYaml -}}
{{ include "ephor.exceptionFlags" (list . "cleanup-controller") }}
- --cleanupServerPort={{ include "ephor.cleanupPort" . }}
- --ttlReconciliationInterval={{ $features.ttlController.reconciliationInterval }}
{{- with .Values.cleanupController.maxDeletionsPerRun }}
- --maxDeletionsPerRun={{ int64 . }}
{{- end }}
{{- if $features.protectManagedResources.enabled }}
- --protectManagedResources
{{- end }}
{{- if $features.dumpPayload.enabled }}
- --dumpPayload
{{- end }}
{{- with $features.globalContext }}
- --apiCallTimeout={{ .apiCallTimeout }}
- --maxAPICallResponseLength={{ int64 .maxApiCallResponseLength }}
- --maxGlobalContextEntries={{ int64 .maxGlobalContextEntries }}
{{- end }}
{{- with .Values.cleanupController.deadManSeconds }}
- --deadManSeconds={{ int64 . }}
{{- end }}
{{- end -}}

{{/* (list $ extraArgs): name → value; a flag without a value for an empty one */}}
{{- define "ephor.extraArgs" -}}
{{- $root := index . 0 -}}
{{- range $name, $value := index . 1 }}
{{- if kindIs "float64" $value }}
{{- $value = ternary (int64 $value | toString) (toString $value) (eq (floor $value) $value) }}
{{- end }}
- --{{ $name }}{{ with tpl (toString $value) $root }}={{ . }}{{ end }}
{{- end }}
{{- end -}}
