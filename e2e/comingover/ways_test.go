package comingover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/charts"
	"github.com/ephor-dev/ephor/hack/chart/helm"
	"github.com/ephor-dev/ephor/internal/cli"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

// guide is the page whose orders of steps these tests follow.
const guide = "docs/migrating/coming-from-kyverno.md"

// left is what must survive each way: objects of policies, their results and their work, and the webhook configuration, which the
// ClusterRole owns that both charts have.
const left = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: left}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {message: team is required, pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: left}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "has(object.metadata.labels)"}]
---
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: left, namespace: default, labels: {app.kubernetes.io/managed-by: kyverno}}
summary: {pass: 1}
---
apiVersion: kyverno.io/v2
kind: UpdateRequest
metadata: {name: left, namespace: kyverno}
spec:
  requestType: generate
  policy: left
  rule: team
  deleteDownstream: false
  resource: {apiVersion: v1, kind: ConfigMap, namespace: default, name: left}
  context: {userInfo: {userInfo: {username: admin}}, admissionRequestInfo: {}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: kyverno-resource-validating-webhook-cfg
  labels: {webhook.kyverno.io/managed-by: kyverno}
  ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: "kyverno:admission-controller", uid: OWNER}]
webhooks:
- name: validate.kyverno.svc-fail
  failurePolicy: POLICY
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 1
  clientConfig: {service: {namespace: kyverno, name: kyverno-svc, path: /validate/fail}}
  rules: [{apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [clusterroles]}]
`

// installation is one on a control plane of its own, with the program's commands and the tools of the ways.
type installation struct {
	*devcluster.Cluster
	t *testing.T
	// kyverno and ephor are folders of charts, one in the form of Kyverno's.
	kyverno, ephor string
	page           string // the rest of the guide
}

// object is one of a manifest.
type object map[string]any

func (o object) metadata() map[string]any {
	m, _ := o["metadata"].(map[string]any)
	return m
}

func (o object) set(field, key, value string) {
	m, _ := o.metadata()[field].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o.metadata()[field] = m
	}
	m[key] = value
}

func parse(t *testing.T, text string) (out []object) {
	t.Helper()
	for _, doc := range charts.Documents([]byte(text)) {
		var o object
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func print(t *testing.T, objects []object) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(text) + "\n")
	}
	return b.String()
}

// asKyverno makes an installation in the form of Kyverno's of that of Ephor: an init container, definitions of which only some are kept, no
// role that only owns webhook configurations, and a role that Ephor does not have.
func asKyverno(t *testing.T, objects []object) (out []object) {
	t.Helper()
	for _, o := range objects {
		name, _ := o.metadata()["name"].(string)
		o.set("labels", "app.kubernetes.io/version", "v1.19.1")
		switch o["kind"] {
		case "ClusterRole":
			if name == "kyverno:webhook" {
				o = object{"apiVersion": o["apiVersion"], "kind": "ClusterRole", "rules": []any{}, "metadata": map[string]any{
					"name": "kyverno:cleanup-jobs", "labels": map[string]any{"app.kubernetes.io/part-of": "kyverno", "app.kubernetes.io/version": "v1.19.1"},
				}}
			}
		case "Deployment":
			pod := o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			pod["initContainers"] = []any{map[string]any{"name": "kyverno-pre", "image": "ghcr.io/kyverno/kyvernopre:v1.19.1"}}
			pod["containers"].([]any)[0].(map[string]any)["image"] = "ghcr.io/kyverno/kyverno:v1.19.1"
		case "CustomResourceDefinition":
			if annotations, _ := o.metadata()["annotations"].(map[string]any); strings.HasSuffix(name, ".policies.kyverno.io") {
				delete(annotations, "helm.sh/resource-policy")
			}
		}
		out = append(out, o)
	}
	return out
}

// begin starts a control plane and makes the charts.
func begin(t *testing.T) *installation {
	t.Helper()
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(root, "hack", "helm.sh")).CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v\n%s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(guide)))
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{Cluster: devcluster.StartT(t), t: t, ephor: filepath.Join(root, "charts", "ephor"), kyverno: t.TempDir(), page: string(page)}
	for name, content := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: kyverno\nversion: 3.9.1\nappVersion: v1.19.1\n", "values.yaml": "admissionController:\n  replicas: 1\n",
		"templates/all.yaml": `{{ .Files.Get "all.yaml" }}`, "all.yaml": print(t, asKyverno(t, parse(t, in.template()))),
	} {
		path := filepath.Join(in.kyverno, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// template is Ephor's chart, rendered.
func (in *installation) template() string {
	in.t.Helper()
	out, err := helm.Run("template", "kyverno", in.ephor, "--namespace=kyverno", "--set", "admissionController.replicas=2")
	if err != nil {
		in.t.Fatal(err)
	}
	return out
}

// step notes that the guide has the text, after that of the step before.
func (in *installation) step(text string) {
	in.t.Helper()
	_, rest, ok := strings.Cut(in.page, text)
	if !ok {
		in.t.Errorf("%s does not have %q after the steps before", guide, text)
		return
	}
	in.page = rest
}

func (in *installation) kubectl(stdin string, args ...string) string {
	in.t.Helper()
	out, err := in.Kubectl(in.t.Context(), []byte(stdin), args...)
	if err != nil {
		in.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

func (in *installation) helm(args ...string) error {
	_, err := helm.Run(append(args, "--kubeconfig="+in.Kubeconfig, "--namespace=kyverno")...)
	return err
}

func (in *installation) mustHelm(args ...string) {
	in.t.Helper()
	if err := in.helm(args...); err != nil {
		in.t.Fatal(err)
	}
}

// ephorCommand runs a command of the program.
func (in *installation) ephorCommand(args ...string) (stdout, all string, code int) {
	in.t.Helper()
	root := cli.NewRoot()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Main(append([]string{"ephor", args[0], "--kubeconfig", in.Kubeconfig}, args[1:]...), root)
	return out.String(), out.String() + errs.String(), code
}

// preflight returns the codes of what it finds, and for those that are lost or stop the object and the message.
func (in *installation) preflight() (codes map[string]int, urgent []string) {
	in.t.Helper()
	out, all, _ := in.ephorCommand("preflight", "-o", "json")
	var report struct {
		Findings []struct {
			Code, Severity, Message string
			Object                  struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		in.t.Fatalf("%v\n%s", err, all)
	}
	codes = map[string]int{}
	for _, f := range report.Findings {
		codes[f.Code]++
		if f.Severity == "lost" || f.Severity == "stops" || f.Severity == "unknown" {
			urgent = append(urgent, f.Code+" "+f.Object.Name+": "+f.Message)
		}
	}
	return codes, urgent
}

// fix runs `ephor preflight --fix`, after which nothing may be lost.
func (in *installation) fix() {
	in.t.Helper()
	in.step("ephor preflight --fix")
	if codes, _ := in.preflight(); codes["definition-not-kept"] == 0 {
		in.t.Errorf("no definition would be lost: %v", codes)
	}
	_, all, _ := in.ephorCommand("preflight", "--fix")
	if codes, urgent := in.preflight(); codes["definition-not-kept"] > 0 {
		in.t.Errorf("after %s: %q", all, urgent)
	}
}

// populate creates what must survive. policy is the failure policy of the webhook, which no server answers.
func (in *installation) populate(policy string) {
	in.t.Helper()
	in.kubectl("", "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
	owner := in.kubectl("", "get", "clusterrole", "kyverno:admission-controller", "-o", "jsonpath={.metadata.uid}")
	objects := strings.NewReplacer("OWNER", owner, "POLICY", policy).Replace(left)
	if err := in.Wait(in.t.Context(), "the population", func() error { // a new kind takes a moment
		_, err := in.Kubectl(in.t.Context(), []byte(objects), "apply", "--server-side", "--field-manager=kyverno", "-f", "-")
		return err
	}); err != nil {
		in.t.Fatal(err)
	}
}

// identities are the UIDs of everything that must survive, the definitions and the owner of the configurations among it.
func (in *installation) identities() string {
	in.t.Helper()
	out := in.kubectl("", "get", "crd,clusterpolicies.kyverno.io,validatingpolicies.policies.kyverno.io,policyreports.wgpolicyk8s.io,updaterequests.kyverno.io,"+
		"validatingwebhookconfigurations,serviceaccounts,configmaps", "-A", "-o",
		`jsonpath={range .items[?(@.metadata.namespace!="kube-system")]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`) + "\n" +
		in.kubectl("", "get", "clusterrole", "kyverno:admission-controller", "-o", "jsonpath={.metadata.name} {.metadata.uid}")
	lines := strings.Split(out, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// survived compares what must survive with what there was.
func (in *installation) survived(what, before string) {
	in.t.Helper()
	after := in.identities()
	for line := range strings.SplitSeq(before, "\n") {
		if !strings.Contains(after, line) {
			in.t.Errorf("%s: lost %s", what, line)
		}
	}
}

// runs checks that the Deployments are those of Ephor, or of Kyverno.
func (in *installation) runs(ephor bool) {
	in.t.Helper()
	got := in.kubectl("", "get", "deployments", "-n", "kyverno", "-o", `jsonpath={range .items[*]}{.spec.template.spec.initContainers[*].name} {.spec.template.spec.containers[*].image}{"\n"}{end}`)
	lines := strings.Split(got, "\n")
	for _, line := range lines {
		if strings.Contains(line, "ephor-dev/ephor") != ephor || strings.Contains(line, "kyverno-pre") == ephor {
			in.t.Errorf("a Deployment has the init container and the image %q", line)
		}
	}
	if len(lines) != 4 {
		in.t.Errorf("%d Deployments", len(lines))
	}
}

// none checks that preflight finds nothing urgent but what is allowed: no controller runs here, so that no server answers webhooks.
func (in *installation) none(allowed ...string) {
	in.t.Helper()
	_, urgent := in.preflight()
	for _, f := range urgent {
		code, _, _ := strings.Cut(f, " ")
		if !slices.Contains(allowed, code) {
			in.t.Errorf("preflight still finds %s", f)
		}
	}
}

// has checks whether the roles exist that only one of the programs has.
func (in *installation) has(kyvernos, ephors bool) {
	in.t.Helper()
	for name, want := range map[string]bool{"kyverno:cleanup-jobs": kyvernos, "kyverno:webhook": ephors} {
		if got := in.kubectl("", "get", "clusterrole", name, "--ignore-not-found", "-o", "name") != ""; got != want {
			in.t.Errorf("the ClusterRole %s exists: %v", name, got)
		}
	}
}

// Helm, with Kyverno stopped: the upgrade is refused by webhooks that fail closed and that no server answers, until they are unlocked.
func TestHelm(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.mustHelm("install", "kyverno", in.kyverno, "--create-namespace", "--set", "admissionController.replicas=2", "--server-side=false")
	in.populate("Fail")
	before := in.identities()
	in.step("## Helm")
	in.fix()
	in.step("helm get values kyverno -n kyverno -o yaml > values.yaml")
	text, err := helm.Run("get", "values", "kyverno", "-o", "yaml", "--kubeconfig="+in.Kubeconfig, "--namespace=kyverno")
	if err != nil {
		t.Fatal(err)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in.step("helm upgrade kyverno charts/ephor -n kyverno -f values.yaml")
	upgrade := []string{"upgrade", "kyverno", in.ephor, "-f", values}
	if codes, _ := in.preflight(); codes["webhook-unanswered"] == 0 {
		t.Errorf("preflight does not find the webhook that no server answers: %v", codes)
	}
	if err := in.helm(upgrade...); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("the upgrade is not refused: %v", err)
	}
	in.step("## When Kyverno is stopped already")
	in.step("ephor unlock --for 10m")
	if _, all, code := in.ephorCommand("unlock", "--for", "10m"); code != 0 {
		t.Fatal(all)
	}
	in.step("helm upgrade kyverno charts/ephor -n kyverno -f values.yaml --wait")
	in.mustHelm(upgrade...)
	in.step("ephor unlock --restore")
	if _, all, code := in.ephorCommand("unlock", "--restore"); code != 0 {
		t.Fatal(all)
	}
	survivors := withoutConfigurations(before) // they were made anew
	in.survived("there", survivors)
	in.runs(true)
	in.has(false, true)
	if got := in.kubectl("", "get", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg", "-o", "name"); got == "" {
		t.Error("the webhook configuration is not restored")
	}
	if got := in.kubectl("", "get", "deployment", "kyverno-admission-controller", "-n", "kyverno", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("%s replicas: the values are lost", got)
	}
	in.none("webhook-unanswered")

	// Back, and stopped again: no controller of Ephor runs.
	if _, all, code := in.ephorCommand("unlock", "--for", "10m"); code != 0 {
		t.Fatal(all)
	}
	in.mustHelm("upgrade", "kyverno", in.kyverno, "-f", values)
	in.survived("back", survivors)
	in.runs(false)
	in.has(true, false)
	if _, all, code := in.ephorCommand("uninstall", "--leave-policies", "--yes"); code != 0 || !strings.Contains(all, "ephor-unlocked-webhooks") {
		t.Errorf("exit code %d: %s", code, all)
	}
	in.survived("at the end", survivors)
}

func withoutConfigurations(identities string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(identities, "\n"), func(l string) bool { return strings.HasPrefix(l, "ValidatingWebhookConfiguration") }), "\n")
}

// Flux upgrades the release as Helm does, by server-side apply, and marks every object of it.
func TestFlux(t *testing.T) {
	t.Parallel()
	in := begin(t)
	label := []string{"--server-side=true", "--force-conflicts", "--set", `customLabels.helm\.toolkit\.fluxcd\.io/name=kyverno`}
	in.mustHelm("install", "kyverno", in.kyverno, "--create-namespace", "--server-side=true")
	in.kubectl("", "label", "deployments,clusterroles,crd", "-n", "kyverno", "-l", "app.kubernetes.io/part-of=kyverno", "helm.toolkit.fluxcd.io/name=kyverno", "--field-manager=helm-controller")
	in.populate("Ignore")
	before := in.identities()
	in.step("## Flux")
	in.step("flux suspend helmrelease kyverno")
	in.fix()
	in.step("flux resume helmrelease kyverno")
	in.mustHelm(append([]string{"upgrade", "kyverno", in.ephor}, label...)...)
	in.survived("there", before)
	in.runs(true)
	in.has(false, true)
	in.none()
	in.mustHelm("upgrade", "kyverno", in.kyverno, "--server-side=true", "--force-conflicts")
	in.survived("back", before)
	in.runs(false)
	in.has(true, false)
}

// tracking is the annotation by which Argo CD finds the objects of an Application.
const tracking = "argocd.argoproj.io/tracking-id"

// sync does what a sync of Argo CD does: the rendered chart with an annotation on each object is applied by the API server, with conflicts
// forced; with prune, what has the annotation and is not in the chart is deleted, unless its sync options keep it.
func (in *installation) sync(manifest string, prune bool) {
	in.t.Helper()
	wanted := map[string]bool{}
	objects := parse(in.t, manifest)
	for _, o := range objects {
		group, _, grouped := strings.Cut(fmt.Sprint(o["apiVersion"]), "/")
		if !grouped {
			group = ""
		}
		namespace, _ := o.metadata()["namespace"].(string)
		id := fmt.Sprintf("kyverno:%s/%s:%s/%s", group, o["kind"], namespace, o.metadata()["name"])
		o.set("annotations", tracking, id)
		wanted[id] = true
	}
	in.kubectl(print(in.t, objects), "apply", "--server-side", "--field-manager=argocd-controller", "--force-conflicts", "-f", "-")
	if !prune {
		return
	}
	var all struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name, Namespace string
				Annotations     map[string]string
			}
		}
	}
	text := in.kubectl("", "get", "crd,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,services,configmaps,deployments", "-A", "-o", "json")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		in.t.Fatal(err)
	}
	for _, o := range all.Items {
		id := o.Metadata.Annotations[tracking]
		if id == "" || wanted[id] || strings.Contains(o.Metadata.Annotations["argocd.argoproj.io/sync-options"], "Prune=false") {
			continue
		}
		in.kubectl("", "delete", o.Kind, o.Metadata.Name, "-n", o.Metadata.Namespace)
	}
}

// Argo CD: the chart is rendered and applied by the API server, and what it leaves out is pruned.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.kubectl("", "create", "namespace", "kyverno")
	kyverno, err := os.ReadFile(filepath.Join(in.kyverno, "all.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	in.sync(string(kyverno), false)
	in.populate("Ignore")
	before := in.identities()
	in.step("## Argo CD")
	in.step("argocd app set kyverno --sync-policy none")
	in.fix()
	in.step("ServerSideApply=true")
	in.step("argocd app sync kyverno`, without `--prune`")
	ephor := in.template()
	in.sync(ephor, false)
	in.survived("there", before)
	in.runs(true)
	in.has(true, true)
	in.none()
	in.step("sync with `--prune`")
	in.sync(ephor, true)
	in.survived("there, pruned", before)
	in.has(false, true)

	// A chart that leaves definitions out, as Kyverno's does with a group of them off, takes none along.
	without := slices.DeleteFunc(parse(t, string(kyverno)), func(o object) bool {
		name, _ := o.metadata()["name"].(string)
		return o["kind"] == "CustomResourceDefinition" && strings.HasSuffix(name, ".policies.kyverno.io")
	})
	in.sync(print(t, without), true)
	in.survived("back", before)
	in.runs(false)
	in.has(true, false)
}

// Plain manifests, created by kubectl and applied over in both ways that kubectl has.
func TestManifests(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.kubectl("", "create", "namespace", "kyverno")
	kyverno, err := os.ReadFile(filepath.Join(in.kyverno, "all.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	in.kubectl(string(kyverno), "create", "-f", "-")
	in.populate("Ignore")
	before := in.identities()
	ephor := in.template()
	orphan := []string{"delete", "deployment", "-n", "kyverno", "-l", "app.kubernetes.io/part-of=kyverno", "--cascade=orphan"}
	// A plain apply keeps the init container, which preflight knows.
	if codes, _ := in.preflight(); codes["init-container"] != 4 {
		t.Errorf("preflight finds %v", codes)
	}
	in.step("## Plain manifests")
	in.step("kubectl " + strings.Join(orphan, " "))
	in.step("kubectl apply --server-side --force-conflicts -f install.yaml")
	in.kubectl("", orphan...)
	in.kubectl(ephor, "apply", "--server-side", "--force-conflicts", "-f", "-")
	in.survived("there", before)
	in.runs(true)
	in.none("definition-not-kept")

	in.kubectl("", orphan...)
	in.kubectl(string(kyverno), "apply", "--server-side", "--force-conflicts", "-f", "-")
	in.survived("back", before)
	in.runs(false)

	in.step("kubectl apply -f install.yaml")
	in.kubectl("", orphan...)
	in.kubectl(ephor, "apply", "-f", "-")
	in.survived("there, client-side", before)
	in.runs(true)
}
