{{/* The kind of the policies: the value, or that of the policies which the release has in the cluster. */}}
{{- define "policies.type" -}}
{{- $type := .Values.policyType -}}
{{- if not $type -}}
{{- $type = "ValidatingPolicy" -}}
{{- if .Capabilities.APIVersions.Has (printf "kyverno.io/v1/%s" .Values.policyKind) -}}
{{- range (lookup "kyverno.io/v1" .Values.policyKind "" "").items -}}
{{- $owner := .metadata.annotations | default dict -}}
{{- if and (eq (get $owner "meta.helm.sh/release-name") $.Release.Name) (eq (get $owner "meta.helm.sh/release-namespace") $.Release.Namespace) -}}
{{- $type = "ClusterPolicy" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $type -}}
{{- end -}}

{{/* (list $ name profile) → true if the values select the policy */}}
{{- define "policies.selected" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $profile := index . 2 -}}
{{- $v := $root.Values -}}
{{- $profiles := dict "baseline" (list "baseline") "restricted" (list "baseline" "restricted") -}}
{{- $listed := concat $v.includeRestrictedPolicies $v.includeOtherPolicies -}}
{{- if eq $v.podSecurityStandard "custom" -}}
{{- $listed = concat $listed $v.podSecurityPolicies -}}
{{- end -}}
{{- if or (has $profile (get $profiles $v.podSecurityStandard | default list)) (has $name $listed) -}}true{{- end -}}
{{- end -}}

{{/* (list $ name) → Audit or Enforce */}}
{{- define "policies.action" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $action := get $root.Values.validationFailureActionByPolicy $name | default $root.Values.validationFailureAction | title -}}
{{- if not (has $action (list "Audit" "Enforce")) -}}
{{- fail (printf "validationFailureAction of %s: %q is neither Audit nor Enforce" $name $action) -}}
{{- end -}}
{{- $action -}}
{{- end -}}

{{/* (list $ name policy) → the metadata of a policy */}}
{{- define "policies.metadata" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $policy := index . 2 -}}
{{- $v := $root.Values -}}
{{- $chart := default "kyverno-policies" $v.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- $annotations := dict
      "policies.kyverno.io/title" $policy.title
      "policies.kyverno.io/category" $policy.category
      "policies.kyverno.io/severity" (get $v.podSecuritySeverityByPolicy $name | default $v.podSecuritySeverity)
      "policies.kyverno.io/subject" $policy.subject
      "policies.kyverno.io/description" ($policy.description | trim)
      "kyverno.io/kyverno-version" (ternary "v1.19.0" $v.kyvernoVersion (eq $v.kyvernoVersion "autodetect"))
      "kyverno.io/kubernetes-version" (default $root.Chart.KubeVersion $v.kubeVersionOverride) -}}
{{- with $policy.minversion -}}{{- $_ := set $annotations "policies.kyverno.io/minversion" . -}}{{- end -}}
{{- if and $v.autogenControllers (eq (include "policies.type" $root) "ClusterPolicy") -}}
{{- $_ := set $annotations "pod-policies.kyverno.io/autogen-controllers" $v.autogenControllers -}}
{{- end -}}
{{- $annotations = mergeOverwrite $annotations (deepCopy $v.customAnnotations) (deepCopy (get $v.customAnnotationsByPolicy $name | default dict)) -}}
{{- $labels := dict
      "app.kubernetes.io/component" "kyverno"
      "app.kubernetes.io/instance" $root.Release.Name
      "app.kubernetes.io/managed-by" $root.Release.Service
      "app.kubernetes.io/name" $chart
      "app.kubernetes.io/part-of" $chart
      "app.kubernetes.io/version" $root.Chart.Version
      "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
name: {{ $name }}
{{- if eq $v.policyKind "Policy" }}
namespace: {{ $root.Release.Namespace }}
{{- end }}
annotations:
  {{- toYaml $annotations | nindent 2 }}
labels:
  {{- toYaml (mergeOverwrite $labels (deepCopy $v.customLabels)) | nindent 2 }}
{{- end -}}

{{/* (list values policy rule) → what a map of values says for the policy and for the rule: their lists of any and all, joined */}}
{{- define "policies.joined" -}}
{{- $out := dict -}}
{{- range $name := list (index . 1) (index . 2) | uniq -}}
{{- range $key, $value := get (index $ 0) $name | default dict -}}
{{- if kindIs "slice" $value -}}
{{- $value = concat (get $out $key | default list) $value -}}
{{- end -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* A shape of Pods → the pattern: what it says of the Pod, and of each container in the three lists. */}}
{{- define "policies.pattern" -}}
{{- $spec := deepCopy (.pod | default dict) -}}
{{- with .containers -}}
{{- $_ := set $spec "containers" (list .) -}}
{{- $_ := set $spec "=(initContainers)" (list .) -}}
{{- $_ := set $spec "=(ephemeralContainers)" (list .) -}}
{{- end -}}
{{- $out := deepCopy (.object | default dict) -}}
{{- if $spec -}}{{- $_ := set $out "spec" $spec -}}{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{/* (list $ name policy) → the spec of a ClusterPolicy */}}
{{- define "policies.classic" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $policy := index . 2 -}}
{{- $v := $root.Values -}}
{{- $action := include "policies.action" (list $root $name) -}}
{{- $overrides := concat ($v.validationFailureActionOverrides.all | default list) (get $v.validationFailureActionOverrides $name | default list) -}}
{{- $rules := list -}}
{{- range $rule := $policy.rules -}}
{{- $validate := dict "message" ($rule.message | trim) "failureAction" $action "allowExistingViolations" $v.validationAllowExistingViolations -}}
{{- with $overrides -}}{{- $_ := set $validate "failureActionOverrides" . -}}{{- end -}}
{{- with $rule.shape -}}{{- $_ := set $validate "pattern" (include "policies.pattern" . | fromYaml) -}}{{- end -}}
{{- with $rule.anyShape -}}
{{- $patterns := list -}}
{{- range . -}}{{- $patterns = append $patterns (include "policies.pattern" . | fromYaml) -}}{{- end -}}
{{- $_ := set $validate "anyPattern" $patterns -}}
{{- end -}}
{{- with $rule.denyAll -}}{{- $_ := set $validate "deny" (dict "conditions" (dict "all" .)) -}}{{- end -}}
{{- with $rule.denyContainers -}}
{{- $each := dict "list" "request.object.spec.[containers, initContainers, ephemeralContainers][]" "deny" (dict "conditions" (dict "all" .)) -}}
{{- $_ := set $validate "foreach" (list $each) -}}
{{- end -}}
{{- $out := dict "name" $rule.name "match" (dict "any" (list (dict "resources" (dict "kinds" (list "Pod"))))) "validate" $validate -}}
{{- with include "policies.joined" (list $v.policyExclude $name $rule.name) | fromYaml -}}{{- $_ := set $out "exclude" . -}}{{- end -}}
{{- $conditions := include "policies.joined" (list $v.policyPreconditions $name $rule.name) | fromYaml -}}
{{- if or $rule.denyAll $rule.denyContainers -}}
{{- $kept := dict "key" "{{ request.operation || 'BACKGROUND' }}" "operator" "NotEquals" "value" "DELETE" -}}
{{- $_ := set $conditions "all" (prepend ($conditions.all | default list) $kept) -}}
{{- end -}}
{{- with $conditions -}}{{- $_ := set $out "preconditions" . -}}{{- end -}}
{{- if not (kindIs "invalid" $v.skipBackgroundRequests) -}}{{- $_ := set $out "skipBackgroundRequests" $v.skipBackgroundRequests -}}{{- end -}}
{{- $rules = append $rules $out -}}
{{- end -}}
{{- $spec := dict "background" $v.background "failurePolicy" $v.failurePolicy "validationFailureAction" $action "rules" $rules -}}
{{- with $overrides -}}{{- $_ := set $spec "validationFailureActionOverrides" . -}}{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* A subject → the CEL condition that a request is its */}}
{{- define "policies.subject" -}}
{{- if eq .kind "Group" -}}
'{{ .name }}' in request.userInfo.groups
{{- else if eq .kind "User" -}}
request.userInfo.username == '{{ .name }}'
{{- else if eq .kind "ServiceAccount" -}}
request.userInfo.username == 'system:serviceaccount:{{ required "vpolExclude: a ServiceAccount needs a namespace" .namespace }}:{{ .name }}'
{{- else -}}
{{- fail (printf "vpolExclude: the kind of a subject is Group, User or ServiceAccount, not %q" .kind) -}}
{{- end -}}
{{- end -}}

{{/* (list $ name policy) → the spec of a ValidatingPolicy */}}
{{- define "policies.cel" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $policy := index . 2 -}}
{{- $v := $root.Values -}}
{{- $exclude := ternary (get $v.vpolExcludeByPolicy $name) $v.vpolExclude (hasKey $v.vpolExcludeByPolicy $name) | default dict -}}
{{- $constraints := dict "resourceRules" (list (dict "apiGroups" (list "") "apiVersions" (list "v1") "operations" (list "CREATE" "UPDATE") "resources" (list "pods"))) -}}
{{- with $exclude.excludeResourceRules -}}{{- $_ := set $constraints "excludeResourceRules" . -}}{{- end -}}
{{- $conditions := list -}}
{{- with $exclude.excludeNamespaces -}}
{{- $conditions = append $conditions (dict "name" "exclude-namespaces" "expression" (printf "!(request.namespace in ['%s'])" (join "', '" .))) -}}
{{- end -}}
{{- with $exclude.excludeSubjects -}}
{{- $subjects := list -}}
{{- range . -}}{{- $subjects = append $subjects (include "policies.subject" .) -}}{{- end -}}
{{- $conditions = append $conditions (dict "name" "exclude-subjects" "expression" (printf "!(%s)" (join " || " $subjects))) -}}
{{- end -}}
{{- $conditions = concat $conditions ($exclude.matchConditions | default list) -}}
{{- $spec := dict "failurePolicy" $v.failurePolicy "matchConstraints" $constraints "validations" $policy.cel.validations
      "validationActions" (list (ternary "Deny" "Audit" (eq (include "policies.action" (list $root $name)) "Enforce"))) -}}
{{- with $conditions -}}{{- $_ := set $spec "matchConditions" . -}}{{- end -}}
{{- if contains "variables.containers" (toJson $policy.cel.validations) -}}
{{- $all := "object.spec.containers + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])" -}}
{{- $_ := set $spec "variables" (list (dict "name" "containers" "expression" $all)) -}}
{{- end -}}
{{- $annotations := mergeOverwrite (deepCopy $v.auditAnnotations) (get $v.auditAnnotationsByPolicy $name | default dict) -}}
{{- $audit := list -}}
{{- range $key := keys $annotations | sortAlpha -}}{{- $audit = append $audit (dict "key" $key "valueExpression" (get $annotations $key)) -}}{{- end -}}
{{- with $audit -}}{{- $_ := set $spec "auditAnnotations" . -}}{{- end -}}
{{- if not $v.background -}}{{- $_ := set $spec "evaluation" (dict "background" (dict "enabled" false)) -}}{{- end -}}
{{- with $v.autogenControllers -}}
{{- $controllers := list -}}
{{- range splitList "," . -}}
{{- $one := trim . -}}
{{- if and $one (ne $one "none") -}}{{- $controllers = append $controllers (printf "%ss" (lower $one)) -}}{{- end -}}
{{- end -}}
{{- $_ := set $spec "autogen" (dict "podControllers" (dict "controllers" $controllers)) -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}
