package admission

import (
	"strings"
	"testing"
)

// The texts for mistakes in policies, each complete with the prefixes that name its place.
func TestTextsOfPolicyReviews(t *testing.T) {
	const (
		podMatch   = `match: {any: [{resources: {kinds: [Pod]}}]}`
		background = "only select variables are allowed in background mode. Set spec.background=false to disable background mode for this policy rule: "
	)
	rule := func(body string) string { return `rules: [{name: r, ` + body + `}]` }
	pods := func(body string) string { return rule(podMatch + `, ` + body) }
	matching := func(block string) string { return rule(block + `, validate: {message: m, deny: {}}`) }
	srv, _ := setup(t, fakeCluster{
		kinds:      map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "deployments": "Deployment", "secrets": "Secret"},
		clusterish: []string{"Namespace", "ClusterRole"},
	}, nil)
	for _, c := range []struct {
		name, kind, spec string
		want             []string
	}{
		{"names", "ClusterPolicy", `rules: [{name: a, ` + podMatch + `, validate: {deny: {}}}, {name: a, ` + podMatch + `, validate: {deny: {}}}]`,
			[]string{"Duplicate rule name: 'a'"}},
		{"no operation", "ClusterPolicy", rule(podMatch), []string{"No operation defined in the rule 'r'.(supported operations: mutate,validate,generate,verifyImages)"}},
		{"two operations", "ClusterPolicy", pods(`validate: {deny: {}}, mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}`),
			[]string{"Multiple operations defined in the rule 'r', only one operation (mutate,validate,generate,verifyImages) is allowed per rule"}},
		{"timeout", "ClusterPolicy", `webhookTimeoutSeconds: 31, ` + pods(`validate: {deny: {}}`), []string{"the timeout value must be between 1 and 30 seconds"}},
		{"timeout new", "ClusterPolicy", `webhookConfiguration: {timeoutSeconds: 0}, ` + pods(`validate: {deny: {}}`), []string{"the timeout value must be between 1 and 30 seconds"}},
		{"both timeouts", "ClusterPolicy", `webhookTimeoutSeconds: 3, failurePolicy: Fail, webhookConfiguration: {timeoutSeconds: 3, failurePolicy: Ignore}, ` + pods(`validate: {deny: {}}`),
			[]string{"remove the deprecated field and use spec.webhookConfiguration.timeoutSeconds instead", "remove the deprecated field and use spec.webhookConfiguration.failurePolicy instead"}},
		{"generate existing", "ClusterPolicy", `generateExistingOnPolicyUpdate: true, ` + pods(`validate: {deny: {}}`), []string{"remove the deprecated field and use spec.generate[*].generateExisting instead"}},
		{"mutate existing without targets", "ClusterPolicy", `mutateExistingOnPolicyUpdate: true, ` + pods(`mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}`),
			[]string{"spec.mutateExistingOnPolicyUpdate: Forbidden: rules[0].mutate.targets has to be specified when mutateExistingOnPolicyUpdate is set"}},
		{"mutate existing without targets, in the rule", "Policy", pods(`mutate: {mutateExistingOnPolicyUpdate: true, patchStrategicMerge: {metadata: {labels: {a: b}}}}`),
			[]string{"spec.mutateExistingOnPolicyUpdate: Forbidden: rules[0].mutate.targets has to be specified when mutateExistingOnPolicyUpdate is set"}},
		{"mutate existing without targets, in a foreach", "ClusterPolicy", pods(`mutate: {mutateExistingOnPolicyUpdate: true, foreach: [{list: "request.object.spec.containers", patchesJson6902: "[]"}]}`),
			[]string{"rules[0].mutate.targets has to be specified when mutateExistingOnPolicyUpdate is set"}},
		{"overrides of a Policy", "Policy", `validationFailureActionOverrides: [{action: Audit, namespaces: [a]}], ` + pods(`validate: {deny: {}}`), []string{"Use of validationFailureActionOverrides is supported only with ClusterPolicy"}},
		{"conflict", "ClusterPolicy", `validationFailureActionOverrides: [{action: Audit, namespaces: [a, "b*"]}, {action: Enforce, namespaces: [a, bb, "b*c"]}], ` + pods(`validate: {deny: {}}`),
			[]string{"conflicting namespaces found in path: spec.validationFailureActionOverrides", ": a", "wildcard pattern 'b*' matches with namespace 'bb'", "wildcard pattern 'b*' conflicts with the pattern 'b*c'"}},
		{"both off", "ClusterPolicy", `admission: false, background: false, ` + pods(`validate: {deny: {}}`), []string{"disabling both admission and background processing is not allowed"}},
		{"admission off", "ClusterPolicy", `admission: false, ` + pods(`mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}`), []string{"disabling admission processing is only allowed with validation policies"}},
		{"match condition", "ClusterPolicy", `webhookConfiguration: {matchConditions: [{name: a, expression: "1 +"}]}, ` + pods(`validate: {deny: {}}`), []string{"match conditions compilation errors: "}},

		{"any and all", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod]}}], all: [{resources: {kinds: [Pod]}}]}`), []string{"Can't specify any and all together"}},
		{"any and bare", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod]}}], resources: {kinds: [Pod]}}`), []string{"can't specify any/all together with match resources"}},
		{"exclude any and bare", "ClusterPolicy", matching(podMatch + `, exclude: {any: [{resources: {kinds: [Secret]}}], resources: {kinds: [Secret]}}`), []string{"can't specify any/all together with exclude resources"}},
		{"empty set", "ClusterPolicy", matching(podMatch + `, exclude: {any: [{resources: {kinds: [Pod]}}]}`), []string{"Rule is matching an empty set"}},
		{"name and names", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod], name: a, names: [b]}}]}`), []string{"Both name and names can not be specified together"}},
		{"empty selector", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod], selector: {}}}]}`), []string{"The requirements are not specified in selector"}},
		{"namespaces in a Policy", "Policy", matching(`match: {any: [{resources: {kinds: [Pod], namespaces: [a]}}]}`), []string{"Filtering namespaces not allowed in namespaced policies"}},
		{"cluster kind in a Policy", "Policy", matching(`match: {any: [{resources: {kinds: [Namespace]}}]}`), []string{"Cluster wide resource 'Namespace' not allowed in namespaced policy"}},
		{"a mistake that only the API server can find, beside others", "Policy", matching(`match: {any: [{resources: {kinds: [Namespace], namespaces: [a]}}]}`),
			[]string{"Filtering namespaces not allowed in namespaced policies", "Cluster wide resource 'Namespace' not allowed in namespaced policy"}},
		{"subjects", "ClusterPolicy", `background: false, ` + matching(`match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: Robot, name: a}, {kind: ServiceAccount, name: a}], roles: [a]}]}`),
			[]string{"kind must be 'User', 'Group', or 'ServiceAccount'", "namespace is required when Kind is ServiceAccount", "Role is expected to be in namespace:name format"}},
		{"wildcard", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: ["*"]}}]}`),
			[]string{"path: spec.rules[0].match.any[1].kinds: wildcard policy not allowed in background mode. Set spec.background=false to disable background mode for this policy rule "}},
		{"wildcard and kinds", "ClusterPolicy", `background: false, ` + matching(`match: {any: [{resources: {kinds: ["*", Pod]}}]}`), []string{"wildcard policy can not deal with more than one kind"}},
		{"wildcard generate", "ClusterPolicy", `background: false, ` + rule(`match: {any: [{resources: {kinds: ["*"]}}]}, generate: {apiVersion: v1, kind: ConfigMap, name: a, namespace: b, data: {}}`), []string{"wildcard policy does not support rule type"}},
		{"wildcard pattern", "ClusterPolicy", `background: false, ` + rule(`match: {any: [{resources: {kinds: ["*"]}}]}, validate: {pattern: {spec: {a: b}}}`), []string{"policy can only deal with the metadata field of the resource if the rule does not match any kind"}},
		{"no kinds", "ClusterPolicy", matching(`match: {any: [{resources: {operations: [CREATE]}}]}`), []string{"at least one element must be specified in a kind block, the kind attribute is mandatory when working with the resources element"}},
		{"subresource", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: ["Pod/*"]}}]}`), []string{"path: spec.rules[0].match.any[0].kinds: background scan enabled with subresource Pod/*"}},
		{"subresource all", "ClusterPolicy", matching(`match: {all: [{resources: {kinds: [Pod, "*/status"]}}]}`), []string{"path: spec.rules[0].match.all[0].kinds: background scan enabled with subresource */status"}},
		{"subresource bare", "ClusterPolicy", matching(`match: {resources: {kinds: ["*/*"]}}`), []string{"path: spec.rules[0].match.kinds: background scan enabled with subresource */*"}},
		{"operator", "ClusterPolicy", pods(`validate: {deny: {conditions: {any: [{key: a, operator: Equalz, value: b}]}}}`),
			[]string{"entered value of `operator` is invalid. valid values: [", `"Equals"`, `"DurationLessThan"`}},
		{"missing", "ClusterPolicy", pods(`validate: {deny: {conditions: {any: [{key: a, operator: Equals}]}}}`), []string{"entered value of `key`, `value` or `operator` is missing or misspelled"}},
		{"operation", "ClusterPolicy", pods(`validate: {deny: {conditions: {any: [{key: "{{request.operation}}", operator: Equals, value: PATCH}]}}}`),
			[]string{"unknown value 'PATCH' found under the 'value' field. Only the following values are allowed: [CREATE, UPDATE, DELETE, CONNECT]"}},

		{"user info", "ClusterPolicy", pods(`validate: {message: "{{serviceAccountName}} {{ request.userInfo.username }}", deny: {conditions: {any: [{key: "{{request.roles}}", operator: AnyIn, value: a}]}}}`),
			[]string{background + "variable {{serviceAccountName}} is not allowed ", background + "variable {{request.userInfo}} is not allowed ", background + "variable {{request.roles}} is not allowed "}},
		{"user info in match", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Pod]}, clusterRoles: [a]}]}, exclude: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: User, name: a}]}]}`),
			[]string{background + "invalid variable used at path: spec/rules[0]/match/any[1]/clusterRoles ", "invalid variable used at path: spec/rules[0]/exclude/any[0]/subjects "}},
		{"unknown variable", "ClusterPolicy", pods(`context: [{name: known, variable: {value: 1}}], validate: {message: "{{ foo.bar }}", deny: {}}`),
			[]string{"policy contains invalid variables: variable substitution failed for rule r: variable foo.bar must match regex \"", "\" or patterns [known]"}},
		{"target", "ClusterPolicy", pods(`mutate: {targets: [{apiVersion: v1, kind: ConfigMap, name: "{{ target.metadata.name }}", namespace: d}], patchStrategicMerge: {metadata: {labels: {a: b}}}}`),
			[]string{"policy contains invalid variables: invalid variables defined at mutate.targets[0]: variable target"}},
		{"policy update", "ClusterPolicy", `mutateExistingOnPolicyUpdate: true, ` + pods(`mutate: {targets: [{apiVersion: v1, kind: ConfigMap, name: c, namespace: d}], patchStrategicMerge: {metadata: {labels: {a: "{{ request.userInfo.username }}"}}}}`),
			[]string{"only select variables are allowed in on policy update. Set spec.mutateExistingOnPolicyUpdate=false to disable update policy mode for this policy rule: "}},
		{"forbidden places", "ClusterPolicy", matching(`match: {any: [{resources: {kinds: [Pod], names: ["{{ request.name }}"]}}]}, exclude: {any: [{resources: {kinds: [Secret], names: ["{{ request.name }}"]}}]}`),
			[]string{`policy contains invalid variables: rule "r" should not have variables in match section`, `policy contains invalid variables: rule "r" should not have variables in exclude section`}},
		{"patch path", "ClusterPolicy", pods(`mutate: {patchesJson6902: "- {op: add, path: '/metadata/{{ request.name }}', value: a}"}`),
			[]string{`policy contains invalid variables: rule "r" should not have variables in patchesJSON6902 path section`}},
		{"image reference", "ClusterPolicy", pods(`verifyImages: [{imageReferences: ["{{ request.name }}"], verifyDigest: true}]`),
			[]string{`policy contains invalid variables: rule "r" should not have variables in image reference section`}},
		{"element", "ClusterPolicy", pods(`validate: {message: "{{ element.name }}", deny: {}}`), []string{"variable 'element.name' present outside of foreach at path /validate/message"}},

		{"context", "ClusterPolicy", pods(`context: [{variable: {value: 1}}, {name: request, variable: {value: 1}}, {name: a}, {name: b, variable: {}}, {name: c, variable: {value: 1, default: 2}},
			{name: d, variable: {jmesPath: "a["}}, {name: e, configMap: {namespace: x}}, {name: f, configMap: {name: x}}, {name: g, apiCall: {urlPath: /api, service: {url: "https://e.com"}}}, {name: h, globalReference: {name: ""}},
			{name: i, imageRegistry: {reference: ""}}, {name: k, imageRegistry: {reference: "A B"}}], validate: {deny: {}}`),
			[]string{"path: spec.rules[0]: a name is required for context entries",
				"path: spec.rules[0]: entry name request is invalid as it conflicts with a pre-defined variable request",
				"path: spec.rules[0]: exactly one of configMap or apiCall or imageRegistry or variable is required for context entries",
				"path: spec.rules[0]: a variable must define a value or a jmesPath expression",
				"path: spec.rules[0]: a variable must define a default value only when a jmesPath expression is defined",
				"path: spec.rules[0]: failed to parse JMESPath a[: ",
				"path: spec.rules[0]: a name is required for configMap context entry",
				"path: spec.rules[0]: a namespace is required for configMap context entry",
				"path: spec.rules[0]: a URLPath cannot be used for service API calls",
				"path: spec.rules[0]: a name is required for globalReference context entry",
				"path: spec.rules[0]: a ref is required for imageRegistry context entry",
				"path: spec.rules[0]: bad image: A B: "}},
		{"context of a Policy", "Policy", pods(`context: [{name: a, globalReference: {name: x}}], validate: {deny: {}}`), []string{"globalReference is not allowed in namespaced policies"}},
		{"extractor", "ClusterPolicy", pods(`imageExtractors: {Pod: [{path: /spec/x, jmesPath: "trim(@, 'a')"}]}, verifyImages: [{imageReferences: ["*"], attestors: [{entries: [{keys: {publicKeys: k8s://a/b}}]}]}]`),
			[]string{"jmespath may not be used in an image extractor when mutating digests with verify images"}},
		{"cel context", "ClusterPolicy", pods(`context: [{name: a, variable: {value: 1}}], validate: {cel: {expressions: [{expression: "true"}]}}`), []string{"context variables are not supported for CEL expressions in validate rules"}},

		{"nothing to validate", "ClusterPolicy", pods(`validate: {message: m}`), []string{"path: spec.rules[0].validate..: one of pattern, anyPattern, deny, foreach, cel must be specified"}},
		{"two to validate", "ClusterPolicy", pods(`validate: {deny: {}, pattern: {spec: {a: b}}}`), []string{"only one of pattern, anyPattern, deny, foreach, cel can be specified"}},
		{"foreach", "ClusterPolicy", pods(`validate: {foreach: [{deny: {}}, {list: a}, {list: a, deny: {}, pattern: {a: b}}]}`),
			[]string{"foreach.list is required", "one of pattern, anyPattern, deny, or a nested foreach must be specified", "only one of pattern, anyPattern, deny, or a nested foreach can be specified"}},
		{"anchors", "ClusterPolicy", pods(`validate: {pattern: {"+(spec)": {a: b}, "^(a)": b, "^(b)": []}}`),
			[]string{"unsupported anchor +(spec)", "existence anchor should have value of type list", "existence anchor: should have at least one value"}},
		{"anyPattern", "ClusterPolicy", pods(`validate: {anyPattern: {spec: {a: b}}}`), []string{"failed to deserialize anyPattern, expect array: "}},
		{"cel", "ClusterPolicy", pods(`validate: {cel: {expressions: [{message: m}], paramKind: {}, auditAnnotations: [{}]}}`),
			[]string{"cel.expressions.expression is required", "cel.paramKind.apiVersion is required", "cel.paramKind.kind is required", "cel.paramRef is required", "cel.auditAnnotation.key is required", "cel.auditAnnotation.valueExpression is required"}},
		{"cel ref", "ClusterPolicy", pods(`validate: {cel: {expressions: [{expression: "true"}], paramRef: {}}}`),
			[]string{"one of cel.paramRef.name or cel.paramRef.selector must be set", "cel.paramRef.parameterNotFoundAction is required", "cel.paramKind is required"}},
		{"celPreconditions", "ClusterPolicy", pods(`celPreconditions: [{name: a, expression: "true"}], validate: {deny: {}}`), []string{"celPrecondition can only be used with validate.cel"}},
		{"podSecurity", "ClusterPolicy", pods(`validate: {podSecurity: {level: baseline, version: latest, exclude: [{controlName: Capabilities}, {controlName: "Host Namespaces", images: ["*"]},
			{controlName: "Running as Non-root", images: ["*"]}, {controlName: Capabilities, images: ["*"], restrictedField: a}, {controlName: Capabilities, images: ["*"], values: [a]}]}}`),
			[]string{"spec.rules[0].podSecurity.exclude[0].controlName", "exclude.images must be specified for the container level control",
				"spec.rules[0].podSecurity.exclude[1].controlName", "exclude.images must not be specified for the pod level control",
				"Invalid control name defined at the given level", "spec.rules[0].podSecurity.exclude[3].values: Required value: values is required", "spec.rules[0].podSecurity.exclude[4].restrictedField: Required value: restrictedField is required"}},
		{"mutate two", "ClusterPolicy", pods(`mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}, patchesJson6902: "- {op: add, path: /a, value: b}"}`), []string{"only one of `foreach`, `patchStrategicMerge`, or `patchesJson6902` is allowed"}},
		{"mutate foreach", "ClusterPolicy", pods(`mutate: {foreach: [{list: a, patchStrategicMerge: {a: b}, patchesJson6902: "- {op: add, path: /a, value: b}"}, {list: a, patchStrategicMerge: {a: b}, foreach: [{list: b, patchStrategicMerge: {a: b}}]}]}`),
			[]string{"only one of `patchStrategicMerge` or `patchesJson6902` is allowed", "a nested foreach cannot contain other declarations"}},
		{"json patch", "ClusterPolicy", pods(`mutate: {patchesJson6902: "- {op: add, path: spec/a, value: b}"}`), []string{"path must begin with a forward slash: spec.rules[0]: spec/a"}},
		{"json patch op", "ClusterPolicy", pods(`mutate: {patchesJson6902: "- {op: put, path: /spec/a, value: b}"}`), []string{"unexpected kind: spec.rules[0]: put"}},
		{"json patch value", "ClusterPolicy", pods(`mutate: {patchesJson6902: "- {op: add, path: /spec/a}"}`), []string{"invalid value: spec.rules[0]: "}},
		{"targets", "Policy", pods(`mutate: {targets: [{apiVersion: v1, kind: ConfigMap, name: c, namespace: other}], patchStrategicMerge: {metadata: {labels: {a: b}}}}`),
			[]string{"This field can be ignored or should have value of the namespace where the policy is being created"}},
		{"labels", "ClusterPolicy", pods(`validate: {pattern: {metadata: {labels: {a: 1}}}}`), []string{`labels and annotations supports only string values, "use double quotes around the non string values"`}},
		{"labels of mutate", "ClusterPolicy", pods(`mutate: {patchStrategicMerge: {metadata: {annotations: {a: true}}}}`), []string{`labels and annotations supports only string values, "use double quotes around the non string values"`}},
		{"labels of generate", "ClusterPolicy", pods(`generate: {apiVersion: v1, kind: ConfigMap, name: a, namespace: b, data: {metadata: {labels: {a: 1}}}}`), []string{`labels and annotations supports only string values, "use double quotes around the non string values"`}},

		{"images", "ClusterPolicy", pods(`verifyImages: [{failureAction: Audit, attestors: [{entries: [{}]}]}]`), []string{"An image reference is required", "mutateDigest must be set to false for ‘Audit’ failure action", "keys, certificates, keyless, or a nested attestor is required"}},
		{"notary", "ClusterPolicy", pods(`verifyImages: [{type: Notary, imageReferences: ["*"], attestors: [{entries: [{keyless: {issuer: a, subject: b}}, {keys: {publicKeys: a}}]}]}]`), []string{"Keyless field is not allowed for type notary", "Keys field is not allowed for type notary"}},
		{"attestors", "ClusterPolicy", pods(`verifyImages: [{imageReferences: ["*"], attestors: [{}, {count: 2, entries: [{keys: {}}]}, {entries: [{keys: {publicKeys: "k8s://a/b", signatureAlgorithm: md5}}, {certificates: {}}, {keyless: {issuer: a, subject: b}}]}]}]`),
			[]string{"Count cannot exceed length of entries", "An entry is required", "A public key, kms key or secret is required", "Invalid signature algorithm provided", "cert or certChain required", "Either Rekor URL or roots are required"}},
		{"extractors elsewhere", "ClusterPolicy", pods(`imageExtractors: {Pod: [{path: /spec/x}]}, validate: {deny: {}}`), []string{"Invalid rule spec for rule 'r', imageExtractors can only be defined for verifyImages rule"}},

		{"generate two", "ClusterPolicy", pods(`generate: {apiVersion: v1, kind: ConfigMap, name: a, namespace: b, data: {}, clone: {name: c, namespace: d}}`), []string{"only one of generate patterns(data, clone, cloneList and foreach) can be specified"}},
		{"generate scope", "ClusterPolicy", pods(`generate: {apiVersion: v1, kind: ConfigMap, name: a, data: {}}`), []string{"path: spec.rules[0].generate.", "target namespace must be set for a namespaced resource"}},
		{"generate cluster scope", "ClusterPolicy", pods(`generate: {apiVersion: v1, kind: Namespace, name: a, namespace: b, data: {}}`), []string{"target namespace must not be set for a cluster-wide resource"}},
		{"generate identity", "ClusterPolicy", pods(`generate: {namespace: b, data: {}}`), []string{"kind can not be empty", "name can not be empty", "apiVersion can not be empty"}},
		{"cloneList mixed", "ClusterPolicy", pods(`generate: {namespace: b, cloneList: {namespace: a, kinds: [v1/Secret, v1/Namespace]}}`), []string{"mixed scope of target resources is forbidden"}},
		{"cloneList cluster", "ClusterPolicy", pods(`generate: {cloneList: {namespace: a, kinds: [v1/Namespace]}}`), []string{"namespace is forbidden for cluster-wide target resources"}},
		{"cloneList namespace", "ClusterPolicy", pods(`generate: {namespace: b, cloneList: {kinds: [v1/Secret]}}`), []string{"namespace is required for namespaced target resources"}},
		{"cloneList selector", "ClusterPolicy", pods(`generate: {namespace: b, cloneList: {namespace: a, kinds: [v1/Secret], selector: {matchLabels: {a: "b*"}}}}`), []string{"wildcard characters `*/?` not supported"}},
		{"generate in a Policy", "Policy", pods(`generate: {apiVersion: v1, kind: ConfigMap, name: a, namespace: b, clone: {name: c, namespace: e}}`),
			[]string{"a namespaced policy cannot generate resources in other namespaces, expected: d, received: b", "a namespaced policy cannot clone resources from other namespaces, expected: d, received: e"}},
		{"generate a Namespace in a Policy", "Policy", pods(`generate: {apiVersion: v1, kind: Namespace, name: a, data: {}}`), []string{"the target must be a namespaced resource: v1/Namespace"}},
		{"cloneList in a Policy", "Policy", pods(`generate: {namespace: d, cloneList: {namespace: a, kinds: [v1/Secret]}}`), []string{"a namespaced policy cannot clone resources from other namespace, expected: d, received: a"}},
		{"generate anchors", "ClusterPolicy", pods(`generate: {apiVersion: v1, kind: ConfigMap, name: a, namespace: b, data: {"+(data)": {a: b}}}`), []string{"anchors not supported on generate resources: "}},
	} {
		object := `{apiVersion: kyverno.io/v1, kind: ` + c.kind + `, metadata: {name: p`
		if c.kind == "Policy" {
			object += `, namespace: d`
		}
		object += `}, spec: {` + c.spec + `}}`
		_, res := postReview(t, srv, "/policyvalidate", reviewOf(t, object, "", "jane"))
		if res.Allowed {
			t.Errorf("%s: allowed with %q", c.name, res.Warnings)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(res.Result.Message, w) {
				t.Errorf("%s: no %q in\n%s", c.name, w, res.Result.Message)
			}
		}
	}
}

// The warnings of the policy language with which a policy is accepted.
func TestWarningsOfPolicyReviews(t *testing.T) {
	const pods, deployments = `match: {any: [{resources: {kinds: [Pod]}}]}`, `match: {any: [{resources: {kinds: [Deployment]}}]}`
	const lowercase = ": Validation failure actions enforce/audit are deprecated, use Enforce/Audit instead."
	const in, notIn = `Operator In has been deprecated and will be removed soon. Use these instead: ["AllIn" "AnyIn"]`,
		`Operator NotIn has been deprecated and will be removed soon. Use these instead: ["AllNotIn" "AnyNotIn"]`
	srv, _ := setup(t, fakeCluster{}, nil)
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"lower case", `validationFailureAction: enforce, validationFailureActionOverrides: [{action: audit, namespaces: [a]}], rules: [{name: r, ` + pods + `, validate: {deny: {}}}]`,
			[]string{"spec.validationFailureAction" + lowercase, "spec.validationFailureActionOverrides[0].action" + lowercase}},
		{"operators of deny", `rules: [{name: r, ` + pods + `, validate: {deny: {conditions: {any: [{key: a, operator: In, value: [b]}, {key: a, operator: NotIn, value: [b]}]}}}}]`, []string{in, notIn}},
		{"operators of preconditions", `rules: [{name: r, ` + pods + `, preconditions: {any: [{key: a, operator: In, value: [b]}]}, validate: {deny: {}}}]`, nil},
		{"operators of a foreach", `rules: [{name: r, ` + pods + `, mutate: {foreach: [{list: "request.object.a", preconditions: {any: [{key: a, operator: In, value: [b]}]}, patchStrategicMerge: {metadata: {labels: {a: b}}}}]}}]`, []string{in}},
		{"patched Pods", `rules: [{name: r, ` + pods + `, mutate: {patchesJson6902: "- {op: add, path: /a, value: b}"}}]`, []string{"Pods managed by workload controllers should not be directly mutated using policies. Use the autogen feature or write policies that match Pod controllers."}},
		{"replicas", `rules: [{name: r, ` + deployments + `, validate: {pattern: {spec: {replicas: 3}}}}]`, []string{"You are matching on replicas but not including the scale subresource in the policy."}},
		{"replicas in conditions", `rules: [{name: r, ` + deployments + `, validate: {deny: {conditions: {any: [{key: "{{request.object.spec.replicas}}", operator: Equals, value: 3}]}}}}]`, nil},
		{"status", `rules: [{name: r, ` + deployments + `, validate: {pattern: {status: {a: 3}}}}]`, []string{"You are matching on status but not including the status subresource in the policy."}},
		{"unknown kinds", `rules: [{name: r, match: {any: [{resources: {kinds: [Foo, a/v1/Bar]}}]}, validate: {deny: {}}}]`,
			[]string{"the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds Foo", "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds a/v1/Bar"}},
	} {
		_, res := postReview(t, srv, "/policyvalidate", reviewOf(t, `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {`+c.spec+`}}`, "", "jane"))
		if !res.Allowed || strings.Join(res.Warnings, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: allowed %t, warnings %q, want %q", c.name, res.Allowed, res.Warnings, c.want)
		}
	}
}
