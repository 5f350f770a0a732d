package charts_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/corpus"
	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/internal/catalog"
)

// policyRelease is the name of a release of the chart ephor-policies.
const policyRelease = "kyverno-policies"

// policyTypes are the two languages of the chart's policies.
var policyTypes = []string{"ClusterPolicy", "ValidatingPolicy"}

func templatePolicies(t *testing.T, args ...string) []helm.Document {
	t.Helper()
	docs, err := helm.Template("ephor-policies", policyRelease, args...)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// everyPolicy selects all policies of the chart, of one type.
func everyPolicy(kind string) []string {
	return []string{"--set", "policyType=" + kind + ",podSecurityStandard=restricted,includeOtherPolicies[0]=require-non-root-groups"}
}

// recordedPolicies is the folder of the recorded renders of Kyverno's chart, beside the reference data.
func recordedPolicies(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EPHOR_REFERENCE")
	if dir == "" {
		dir = "../../shared/reference"
	}
	dir = filepath.Join(filepath.Dir(dir), "charts", "kyverno-policies")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the recorded renders are not here")
	}
	return dir
}

func TestPoliciesLint(t *testing.T) {
	if out, err := helm.Run("lint", "--strict", "ephor-policies"); err != nil {
		t.Fatal(err, out)
	}
}

// setting is a change of a Pod that satisfies every policy.
type setting struct {
	path  []string
	value any
}

// settings are the fields that the policies read, each with values that some policy accepts or rejects.
func podSettings() (all []setting) {
	add := func(path string, values ...any) {
		for _, v := range values {
			all = append(all, setting{strings.Split(path, "/"), v})
		}
	}
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		add("spec/"+field, true, false)
	}
	add("metadata/annotations", map[string]any{}, map[string]any{"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"},
		map[string]any{"container.apparmor.security.beta.kubernetes.io/c": "localhost/own"}, map[string]any{"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}, map[string]any{"other": "unconfined"})
	for _, kind := range []string{"hostPath", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret", "nfs", "gitRepo"} {
		add("spec/volumes", []any{map[string]any{"name": "v", kind: map[string]any{}}})
	}
	add("spec/volumes", []any{}, []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}, map[string]any{"name": "w", "hostPath": map[string]any{"path": "/"}}})
	add("spec/securityContext", nil, map[string]any{})
	add("spec/securityContext/sysctls", []any{}, []any{map[string]any{"name": "kernel.msgmax", "value": "1"}}, []any{map[string]any{"name": "net.ipv4.tcp_syncookies", "value": "1"}},
		[]any{map[string]any{"name": "net.ipv4.tcp_keepalive_time", "value": "1"}})
	add("spec/securityContext/supplementalGroups", []any{int64(0)}, []any{int64(1)}, []any{int64(1), int64(0)})
	add("spec/securityContext/fsGroup", int64(0), int64(1))
	places := []string{"spec/securityContext"}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		at := "spec/" + list + "/0"
		add(at+"/ports", []any{map[string]any{"containerPort": int64(80), "hostPort": int64(80)}}, []any{map[string]any{"containerPort": int64(80), "hostPort": int64(0)}}, []any{map[string]any{"containerPort": int64(80)}})
		at += "/securityContext"
		places = append(places, at)
		add(at, nil, map[string]any{})
		for _, list := range []string{"add", "drop"} {
			add(at+"/capabilities/"+list, nil, []any{}, []any{"ALL"}, []any{"NET_BIND_SERVICE"}, []any{"CHOWN"}, []any{"SYS_ADMIN"}, []any{"NET_BIND_SERVICE", "SYS_ADMIN"}, []any{"CHOWN", "ALL"})
		}
		add(at+"/capabilities", nil, map[string]any{})
		add(at+"/allowPrivilegeEscalation", nil, true, false)
		add(at+"/privileged", true, false)
		add(at+"/procMount", "Default", "Unmasked")
	}
	for _, at := range places {
		add(at+"/windowsOptions", map[string]any{"hostProcess": true}, map[string]any{"hostProcess": false}, map[string]any{})
		for _, kind := range []string{"container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t", ""} {
			add(at+"/seLinuxOptions", map[string]any{"type": kind})
		}
		add(at+"/seLinuxOptions", map[string]any{"user": "root"}, map[string]any{"role": "admin"}, map[string]any{"level": "s0"}, map[string]any{})
		add(at+"/seccompProfile", nil, map[string]any{"type": "RuntimeDefault"}, map[string]any{"type": "Localhost", "localhostProfile": "p"}, map[string]any{"type": "Unconfined"})
		add(at+"/appArmorProfile", map[string]any{"type": "RuntimeDefault"}, map[string]any{"type": "Localhost"}, map[string]any{"type": "Unconfined"})
		add(at+"/runAsNonRoot", nil, true, false)
		add(at+"/runAsUser", nil, int64(0), int64(1000))
		add(at+"/runAsGroup", nil, int64(0), int64(1000))
	}
	return all
}

// strictPod returns a Pod that satisfies every policy.
func strictPod() map[string]any {
	container := func(name string) []any {
		return []any{map[string]any{"name": name, "image": "nginx", "securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": map[string]any{"drop": []any{"ALL"}},
			"seccompProfile": map[string]any{"type": "RuntimeDefault"},
		}}}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": "default"},
		"spec": map[string]any{
			"containers": container("c"), "initContainers": container("i"), "ephemeralContainers": container("e"),
			"securityContext": map[string]any{"runAsNonRoot": true, "runAsGroup": int64(1000), "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		},
	}
}

// apply changes the object, and makes the maps on the way; nil deletes the field.
func (s setting) apply(o any) {
	for i, key := range s.path {
		last := i == len(s.path)-1
		switch in := o.(type) {
		case map[string]any:
			switch {
			case last && s.value == nil:
				delete(in, key)
				return
			case last:
				in[key] = s.value
				return
			case in[key] == nil:
				in[key] = map[string]any{}
			}
			o = in[key]
		case []any:
			o = in[0]
		}
	}
}

func (s setting) String() string {
	text, err := yaml.Marshal(s.value)
	if err != nil {
		panic(err)
	}
	return strings.Join(s.path, ".") + ": " + strings.Join(strings.Fields(string(text)), " ")
}

// examples returns the Pods, by the setting in which each differs from the strict one, and some of their controllers.
func examples(t *testing.T) (names, objects []string) {
	t.Helper()
	add := func(name string, o map[string]any) {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text, err = yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		names, objects = append(names, name), append(objects, string(text))
	}
	add("-", strictPod())
	for i, s := range podSettings() {
		pod := strictPod()
		s.apply(pod)
		add(s.String(), pod)
		if i%7 > 0 {
			continue
		}
		pod = strictPod()
		s.apply(pod)
		delete(pod["spec"].(map[string]any), "ephemeralContainers")
		template := map[string]any{"metadata": pod["metadata"], "spec": pod["spec"]}
		delete(pod["metadata"].(map[string]any), "name")
		delete(pod["metadata"].(map[string]any), "namespace")
		metadata := map[string]any{"name": "w", "namespace": "default"}
		add("Deployment "+s.String(), map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": map[string]any{"template": template}})
		job := map[string]any{"spec": map[string]any{"template": template}}
		add("CronJob "+s.String(), map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": map[string]any{"jobTemplate": job}})
	}
	return names, objects
}

// verdicts evaluates the policies on the objects: for each object the rules that do not pass, without their messages.
func verdicts(t *testing.T, docs []helm.Document, objects []string) (out []string) {
	t.Helper()
	c := &corpus.Case{}
	for _, d := range docs {
		text, err := yaml.YAMLToJSON([]byte(d.Text))
		if err != nil {
			t.Fatal(err)
		}
		c.Policies = append(c.Policies, string(text))
	}
	programs, diags := c.Compile()
	if err := diags.Errors().Err(); err != nil {
		t.Fatal(err)
	}
	snapshot := catalog.NewStatic(programs)
	for _, text := range objects {
		e := c.Evaluate(snapshot, text, false)
		var failed []string
		for _, r := range e.Results {
			if head, _, _ := strings.Cut(r, ": "); !strings.HasSuffix(head, " pass") {
				failed = append(failed, head)
			}
		}
		slices.Sort(failed)
		verdict := "admitted"
		if !e.Allowed {
			verdict = "denied"
		}
		out = append(out, verdict+": "+strings.Join(failed, ", "))
	}
	return out
}

// The verdicts of all policies on each example equal testdata/policies-⟨type⟩.verdicts.
func TestPoliciesVerdicts(t *testing.T) {
	names, objects := examples(t)
	for _, kind := range policyTypes {
		var got strings.Builder
		for i, v := range verdicts(t, templatePolicies(t, everyPolicy(kind)...), objects) {
			fmt.Fprintf(&got, "%s\n  %s\n", names[i], strings.TrimPrefix(v, "admitted: "))
		}
		file := "testdata/policies-" + kind + ".verdicts"
		if *update {
			if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff.Diff(file, want, "now", []byte(got.String())); len(d) > 0 {
			t.Errorf("other verdicts (go test ./charts -update rewrites the file):\n%s", d)
		}
	}
}

// With the values of each recorded render of Kyverno's chart, the chart renders policies with the same names, the same fields apart from their
// rules and texts, and the same verdicts.
func TestPoliciesRecorded(t *testing.T) {
	dir := recordedPolicies(t)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "rendered.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	names, objects := examples(t)
	pairs := map[string]int{}
	for _, file := range files {
		folder := filepath.Dir(file)
		kind, version := filepath.Base(filepath.Dir(folder)), filepath.Base(filepath.Dir(filepath.Dir(folder)))
		at, err := filepath.Rel(dir, folder)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := helm.Split(string(text))
		if err != nil {
			t.Fatal(err)
		}
		ours := templatePolicies(t, "-f", filepath.Join(folder, "values.yaml"), "--set", "policyType="+kind)
		if len(ours) != len(theirs) {
			t.Errorf("%s: %d policies, Kyverno's chart has %d", at, len(ours), len(theirs))
			continue
		}
		for i := range ours {
			if ours[i].ID() != theirs[i].ID() || ours[i].APIVersion != theirs[i].APIVersion {
				t.Errorf("%s: %s, Kyverno's chart has %s", at, ours[i].ID(), theirs[i].ID())
			}
			if version == "v1.19.0" {
				if d := diff.Diff("kyverno", frame(t, theirs[i]), "ephor", frame(t, ours[i])); len(d) > 0 {
					t.Errorf("%s: %s:\n%s", at, ours[i].ID(), d)
				}
			}
		}
		for _, namespace := range []string{"default", "ingress-nginx", "fluent", "kube-system", "monitoring"} {
			in := objects
			if namespace != "default" {
				if !strings.Contains(at, "overrides") && !strings.Contains(at, "exclude") {
					continue
				}
				in = nil
				for _, o := range objects[:40] {
					in = append(in, strings.Replace(o, `"namespace":"default"`, `"namespace":"`+namespace+`"`, 1))
				}
			}
			got, want := verdicts(t, ours, in), verdicts(t, theirs, in)
			for i := range got {
				if got[i] != want[i] && !newer(version, names[i]) {
					t.Errorf("%s: in %s, %s: %s; Kyverno's policies: %s", at, namespace, names[i], got[i], want[i])
				}
				pairs[kind]++
			}
		}
	}
	t.Logf("pairs of verdicts: %v", pairs)
}

// newer reports whether Kyverno's policies of 1.19 have another verdict on the example than those of the version: they accept volumes of
// the type image.
func newer(version, example string) bool {
	return version != "v1.19.0" && strings.Contains(example, "- image:")
}

// frame returns the parts of a policy that are not its own text: all but the rules' conditions, their messages, titles and descriptions.
func frame(t *testing.T, d helm.Document) []byte {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(d.Text), &o); err != nil {
		t.Fatal(err)
	}
	metadata, spec := o["metadata"].(map[string]any), o["spec"].(map[string]any)
	annotations, labels := metadata["annotations"].(map[string]any), metadata["labels"].(map[string]any)
	delete(annotations, "policies.kyverno.io/description")
	if d.Name == "require-non-root-groups" { // Kyverno's has no title in one of the languages
		delete(annotations, "policies.kyverno.io/title")
	}
	delete(labels, "helm.sh/chart")
	delete(labels, "app.kubernetes.io/version")
	delete(spec, "validations")
	delete(spec, "variables")
	if rules, ok := spec["rules"].([]any); ok {
		for _, r := range rules {
			validate := r.(map[string]any)["validate"].(map[string]any)
			for _, key := range []string{"message", "pattern", "anyPattern", "deny", "foreach"} {
				delete(validate, key)
			}
		}
	}
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Every value of Kyverno's charts 3.2 to 3.9 is accepted, and the chart has every policy of theirs.
func TestPoliciesAccepted(t *testing.T) {
	text, err := os.ReadFile("testdata/policies.keys")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	given := map[string]any{}
	for line := range strings.Lines(string(text)) {
		path, kind, _ := strings.Cut(strings.TrimSpace(line), "\t")
		known[path+" "+kind] = true
		if kind != "policy" {
			put(given, split(path), sample(kind, nil))
		} else if _, err := os.Stat("ephor-policies/policies/" + path + ".yaml"); err != nil {
			t.Error(err)
		}
	}
	maps.Copy(given, map[string]any{"policyKind": "ClusterPolicy", "policyType": "ClusterPolicy", "podSecurityStandard": "restricted", "failurePolicy": "Fail", "validationFailureAction": "enforce", "autogenControllers": "none"})
	values, err := yaml.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, values, 0o600); err != nil {
		t.Fatal(err)
	}
	if docs := templatePolicies(t, "-f", file); len(docs) != 17 {
		t.Errorf("%d policies", len(docs))
	}
	dir := os.Getenv("EPHOR_REFERENCE")
	if dir == "" {
		dir = "../../shared/reference"
	}
	lists, err := filepath.Glob(filepath.Join(dir, "chart-keys-policies", "*.tsv"))
	if err != nil || len(lists) == 0 {
		t.Skip("the lists of keys are not here")
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			key := strings.Join(fields[:min(2, len(fields))], " ")
			if name, ok := strings.CutPrefix(key, "template "); ok {
				if name == "other/custom-policies" {
					continue
				}
				key = strings.TrimSuffix(name, ".cel") + " policy"
			}
			if !strings.HasPrefix(line, "#") && !known[key] {
				t.Errorf("%s: %s is not in testdata/policies.keys", filepath.Base(list), key)
			}
		}
	}
}

// fewPolicies selects a policy of each form.
func fewPolicies(kind string) []string {
	args := "policyType=" + kind + ",podSecurityStandard=custom"
	for i, name := range []string{"disallow-host-path", "restrict-sysctls", "disallow-capabilities-strict", "require-non-root-groups"} {
		args += fmt.Sprintf(",podSecurityPolicies[%d]=%s", i, name)
	}
	return []string{"--set", args}
}

// Each file testdata/policies/⟨values⟩.yaml has values; ⟨values⟩.diff is their effect on the render of some policies.
func TestPoliciesSwitches(t *testing.T) {
	files, err := filepath.Glob("testdata/policies/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(name, "-")
			base := fewPolicies(map[string]string{"classic": "ClusterPolicy", "cel": "ValidatingPolicy"}[kind])
			got := changes(templatePolicies(t, base...), templatePolicies(t, append(base, "-f", file)...))
			golden := strings.TrimSuffix(file, ".yaml") + ".diff"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff.Diff(golden, want, "now", []byte(got)); len(d) > 0 || got == "" {
				t.Errorf("the chart renders something else (go test ./charts -update rewrites the file):\n%s", d)
			}
		})
	}
}

// Wrong values are rejected with a message that helps.
func TestPoliciesRefused(t *testing.T) {
	for args, want := range map[string]string{
		"podSecurityStandard=strict":                             "value must be one of 'baseline', 'restricted', 'privileged', 'custom'",
		"validationFailureAction=Deny":                           `"Deny" is neither Audit nor Enforce`,
		"includeRestrictedPolicies[0]=restrict-volumes":          `there is no policy "restrict-volumes"; there are disallow-capabilities,`,
		"validationFailurAction=Enforce":                         "additional properties 'validationFailurAction' not allowed",
		"vpolExclude.excludeSubjects[0].kind=Role":               `the kind of a subject is Group, User or ServiceAccount, not "Role"`,
		"vpolExclude.excludeSubjects[0].kind=ServiceAccount":     "a ServiceAccount needs a namespace",
		"podSecurityStandard=custom,podSecurityPolicies[0]=typo": `podSecurityPolicies: there is no policy "typo"`,
	} {
		if _, err := helm.Template("ephor-policies", policyRelease, "--set", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", args, err, want)
		}
	}
}

// The notes list the values that have no effect on policies of the installed kind.
func TestPoliciesNotes(t *testing.T) {
	for args, want := range map[string][]string{
		"policyType=ClusterPolicy":                                    nil,
		"policyType=ClusterPolicy,vpolExclude.excludeNamespaces[0]=a": {"vpolExclude"},
		"policyType=ValidatingPolicy,validationFailureActionOverrides.all[0].action=Audit,validationAllowExistingViolations=false,policyExclude.a.any[0].b=c": {
			"policyExclude", "validationFailureActionOverrides.all", "validationAllowExistingViolations",
		},
	} {
		out, err := helm.Run("install", policyRelease, "ephor-policies", "--dry-run=client", "--set", args)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		for _, key := range want {
			if !strings.Contains(notes, "\n  "+key+"\n") {
				t.Errorf("%s: the notes do not name %s:\n%s", args, key, notes)
			}
		}
		if len(want) == 0 && strings.Contains(notes, "no effect") {
			t.Errorf("%s:\n%s", args, notes)
		}
	}
}
