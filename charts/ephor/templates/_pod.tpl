{{/* The Deployment of a controller: dict root, component, command, args (YAML of a list), container (its values), port, portName (https unless given), morePorts (name → port) */}}
{{- define "ephor.deployment" -}}
{{- $root := .root -}}
{{- $of := list $root .component -}}
{{- $values := include "ephor.controllerValues" $of | fromYaml -}}
{{- $replicas := $values.replicas -}}
{{- $scaled := dig "autoscaling" "enabled" false $values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "ephor.controllerName" $of }}
  namespace: {{ include "ephor.namespace" $root }}
  labels:
    {{- include "ephor.labels" $of | nindent 4 }}
    {{- with $values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if and (not $scaled) (not (kindIs "invalid" $replicas)) }}
  replicas: {{ int64 $replicas }}
  {{- end }}
  revisionHistoryLimit: {{ int64 $values.revisionHistoryLimit }}
  {{- with $values.updateStrategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "ephor.matchLabels" $of | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "ephor.labels" $of | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "ephor.serviceAccountName" $of }}
      {{- $account := $values.rbac.serviceAccount }}
      {{- if not $account.automountServiceAccountToken }}
      automountServiceAccountToken: false
      {{- end }}
      {{- with include "ephor.pullSecrets" $of }}
      imagePullSecrets:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with default $root.Values.global.priorityClassName $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $values.hostNetwork }}
      hostNetwork: true
      {{- end }}
      dnsPolicy: {{ $values.dnsPolicy }}
      {{- with $values.dnsConfig }}
      dnsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with mergeOverwrite (include "ephor.decisionsGroup" $of | fromYaml) $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: {{ int64 $values.terminationGracePeriodSeconds }}
      {{- with default $root.Values.global.nodeSelector $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with default $root.Values.global.tolerations $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "ephor.affinity" $of | trim }}
      affinity:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- tpl (toYaml .) $root | nindent 8 }}
      {{- end }}
      {{- with $values.extraInitContainers }}
      initContainers:
        {{- tpl (toYaml .) $root | nindent 8 }}
      {{- end }}
      containers:
      - name: {{ .name }}
        image: {{ include "ephor.image" $root }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        args:
        - controller
        - {{ .command }}
        {{- .args | trim | nindent 8 }}
        {{- with include "ephor.extraArgs" (list $root .container.extraArgs) | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        env:
        {{- include "ephor.env" $of | nindent 8 }}
        {{- with concat $root.Values.global.extraEnvVars .container.extraEnvVars }}
        {{- tpl (toYaml .) $root | nindent 8 }}
        {{- end }}
        ports:
        - name: {{ default "https" .portName }}
          containerPort: {{ int64 .port }}
          protocol: TCP
        {{- range $name, $port := .morePorts }}
        - name: {{ $name }}
          containerPort: {{ int64 $port }}
          protocol: TCP
        {{- end }}
        {{- if not $values.metering.disabled }}
        {{- if eq $values.metering.config "prometheus" }}
        - name: metrics-port
          containerPort: {{ int64 $values.metering.port }}
          protocol: TCP
        {{- end }}
        {{- end }}
        {{- if $values.profiling.enabled }}
        - name: profiling-port
          containerPort: {{ int64 $values.profiling.port }}
          protocol: TCP
        {{- end }}
        {{- range $probe := list "startupProbe" "livenessProbe" "readinessProbe" }}
        {{- with index $values $probe }}
        {{ $probe }}:
          {{- tpl (toYaml .) $root | nindent 10 }}
        {{- end }}
        {{- end }}
        {{- with .container.lifecycle }}
        lifecycle:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .container.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        {{- with .container.securityContext }}
        securityContext:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        volumeMounts:
        - name: api-token
          mountPath: /var/run/secrets/kyverno/apicall
          readOnly: true
        {{- if not $account.automountServiceAccountToken }}
        - name: account-token
          mountPath: /var/run/secrets/kubernetes.io/serviceaccount
          readOnly: true
        {{- end }}
        {{- if include "ephor.caVolume" $of }}
        - name: ca-certificates
          mountPath: /etc/ssl/certs
          readOnly: true
        {{- end }}
        {{- if include "ephor.trustVolume" $of }}
        - name: trust
          mountPath: /etc/ephor/trust
          readOnly: true
        {{- end }}
        {{- if include "ephor.decisionsVolume" $of }}
        - name: decisions
          mountPath: /decisions
        {{- end }}
        {{- $mounts := default list .container.extraVolumeMounts }}
        {{- if eq .component "admission-controller" }}
        {{- $mounts = concat $mounts (default list $values.extraVolumeMounts) }}
        {{- end }}
        {{- with $mounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.extraContainers }}
      {{- tpl (toYaml .) $root | nindent 6 }}
      {{- end }}
      volumes:
      - name: api-token
        projected:
          defaultMode: 420
          sources:
          - serviceAccountToken:
              audience: {{ $root.Values.apiCallToken.audience }}
              expirationSeconds: {{ int64 $root.Values.apiCallToken.expirationSeconds }}
              path: token
      {{- if not $account.automountServiceAccountToken }}
      - name: account-token
        projected:
          defaultMode: 420
          sources:
          - serviceAccountToken:
              {{- with $account.projectedServiceAccountToken.audience }}
              audience: {{ . }}
              {{- end }}
              expirationSeconds: {{ int64 $account.projectedServiceAccountToken.expirationSeconds }}
              path: token
          - configMap:
              name: kube-root-ca.crt
              items:
              - key: ca.crt
                path: ca.crt
          - downwardAPI:
              items:
              - path: namespace
                fieldRef:
                  fieldPath: metadata.namespace
      {{- end }}
      {{- with include "ephor.caVolume" $of }}
      - name: ca-certificates
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "ephor.trustVolume" $of }}
      - name: trust
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "ephor.decisionsVolume" $of }}
      - name: decisions
        {{- . | nindent 8 }}
      {{- end }}
      {{- with $values.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}

{{/* The volume with the trusted root, when a ConfigMap holds one: (list $ "admission-controller") */}}
{{- define "ephor.trustVolume" -}}
{{- $trust := (include "ephor.features" . | fromYaml).offlineTrust -}}
{{- if and $trust.enabled $trust.configMap -}}
configMap:
  name: {{ $trust.configMap }}
  items:
  - key: trusted_root.json
    path: trusted_root.json
{{- end -}}
{{- end -}}

{{- define "ephor.env" -}}
- name: KYVERNO_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: KYVERNO_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: KYVERNO_SERVICEACCOUNT_NAME
  value: {{ include "ephor.serviceAccountName" . }}
- name: KYVERNO_ROLE_NAME
  value: {{ include "ephor.roleName" . }}
- name: KYVERNO_DEPLOYMENT
  value: {{ include "ephor.controllerName" . }}
{{- with include "ephor.controllerValues" . | fromYaml }}
{{- if .service }}
- name: KYVERNO_SVC
  value: {{ include "ephor.serviceName" $ }}
{{- end }}
{{- end }}
- name: INIT_CONFIG
  value: {{ include "ephor.configName" (index . 0) }}
- name: METRICS_CONFIG
  value: {{ include "ephor.metricsConfigName" (index . 0) }}
{{- end -}}

{{- define "ephor.affinity" -}}
{{- $root := index . 0 -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
{{- if $values.podAntiAffinity }}
podAntiAffinity:
  {{- tpl (toYaml $values.podAntiAffinity) $root | nindent 2 }}
{{- else if $values.antiAffinity.enabled }}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 1
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "ephor.matchLabels" . | nindent 10 }}
{{- end }}
{{- with $values.podAffinity }}
podAffinity:
  {{- tpl (toYaml .) $root | nindent 2 }}
{{- end }}
{{- with $values.nodeAffinity }}
nodeAffinity:
  {{- tpl (toYaml .) $root | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Names of all Secrets with which images are pulled, as YAML of a list. */}}
{{- define "ephor.pullSecrets" -}}
{{- $root := index . 0 -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
{{- $names := list -}}
{{- range concat $root.Values.global.imagePullSecrets $root.Values.existingImagePullSecrets (default list $values.imagePullSecrets) (keys $root.Values.imagePullSecrets | sortAlpha) -}}
{{- $names = append $names (ternary . (dict "name" .) (kindIs "map" .)) -}}
{{- end -}}
{{- if $names }}{{ toYaml ($names | uniq) }}{{ end -}}
{{- end -}}

{{/* The volume with certificate authorities, or nothing. */}}
{{- define "ephor.caVolume" -}}
{{- $root := index . 0 -}}
{{- $values := include "ephor.controllerValues" . | fromYaml -}}
{{- with default $root.Values.global.caCertificates.volume $values.caCertificates.volume -}}
{{- toYaml . -}}
{{- else -}}
{{- if default $root.Values.global.caCertificates.data $values.caCertificates.data -}}
configMap:
  name: {{ include "ephor.controllerName" . }}-ca-certificates
  items:
  - key: ca-certificates.crt
    path: ca-certificates.crt
{{- end -}}
{{- end -}}
{{- end -}}
