package comingover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/devcluster"
)

// guide is the page whose steps these tests follow.
const guide = "docs/migrating/coming-from-kyverno.md"

// locking is a part of a webhook configuration that denies the objects of a Helm release while no server answers. A ClusterRole that both
// charts have owns the configuration.
const locking = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: kyverno-resource-validating-webhook-cfg
  labels: {webhook.kyverno.io/managed-by: kyverno}
  ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: "kyverno:admission-controller", uid: OWNER}]
webhooks:
- name: validate.kyverno.svc-fail-roles
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 1
  clientConfig: {service: {namespace: kyverno, name: kyverno-svc, path: /validate/fail}}
  rules: [{apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [clusterroles]}]
`

// report returns a policy report in Kyverno's format.
const report = `
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata:
  name: UID
  namespace: shop
  labels: {app.kubernetes.io/managed-by: kyverno}
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: plain, uid: UID}]
scope: {apiVersion: v1, kind: ConfigMap, name: plain, namespace: shop, uid: UID}
results:
- {policy: audited, rule: team, result: fail, message: "validation error: team is required. rule team failed at path /metadata/labels/", scored: true, source: kyverno, properties: {process: background scan}, timestamp: {seconds: 1795154008, nanos: 0}}
summary: {pass: 0, fail: 1, warn: 0, error: 0, skip: 0}
`

// audited is a policy for which scans report the result that the report contains.
const audited = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: audited}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [shop]}}]}
    validate: {message: team is required, pattern: {metadata: {labels: {team: "?*"}}}}
`

// installation is an installation on its own control plane, with the program's commands and the tools of the guide.
type installation struct {
	*suite.Cluster
	t *testing.T
	// kyverno and ephor are the folders of charts; the first has the form of Kyverno's chart.
	kyverno, ephor string
	guide, page    string // the guide, and the part of it after the steps so far
	recorded       *recordings
}

// object is an object of a manifest.
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

// asKyverno converts Ephor's manifests to the form of Kyverno's: an init container, arguments that Ephor rejects, the recorded definitions
// of which only some are kept, no role that only owns webhook configurations, and a role that Ephor does not have.
func asKyverno(t *testing.T, recorded *recordings, objects []object) (out []object) {
	t.Helper()
	if recorded != nil {
		recorded.definitions(t, objects)
	}
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
			container := pod["containers"].([]any)[0].(map[string]any)
			container["image"], container["args"] = "ghcr.io/kyverno/kyverno:v1.19.1", []any{"--of-another-program"}
		case "CustomResourceDefinition":
			if annotations, _ := o.metadata()["annotations"].(map[string]any); strings.HasSuffix(name, ".policies.kyverno.io") {
				delete(annotations, "helm.sh/resource-policy")
			}
		}
		out = append(out, o)
	}
	return out
}

// begin starts a control plane and creates the charts.
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
	recorded := readRecordings(t)
	in := &installation{
		Cluster: &suite.Cluster{Cluster: devcluster.StartT(t)}, t: t, ephor: filepath.Join(root, "charts", "ephor"), kyverno: t.TempDir(), guide: string(page), page: string(page), recorded: recorded,
	}
	if in.Client, err = kubernetes.NewForConfig(in.Config); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: kyverno\nversion: 3.9.1\nappVersion: v1.19.1\n", "values.yaml": "admissionController:\n  replicas: 1\n",
		"templates/all.yaml": `{{ .Files.Get "all.yaml" }}`, "all.yaml": print(t, asKyverno(t, recorded, parse(t, in.template()))),
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

// given are values that both charts have. An ordinary user may listen on the ports.
const given = "admissionController.replicas=2,admissionController.service.port=8443,cleanupController.service.port=8443"

// plainPaths are the values for webhooks without secret paths, before the way back.
const plainPaths = "webhooks.secretPaths=false"

// template returns Ephor's rendered chart.
func (in *installation) template(values ...string) string {
	in.t.Helper()
	out, err := helm.Run("template", "kyverno", in.ephor, "--namespace=kyverno", "--set", strings.Join(append([]string{given}, values...), ","))
	if err != nil {
		in.t.Fatal(err)
	}
	return out
}

// step checks that the guide contains the text after the text of the previous step.
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
	out, err := in.Kubectl(context.Background(), []byte(stdin), args...) // also at the end of the test
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

// preflight returns the codes of its findings, and the object and message of those about lost or stopped objects.
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

// fix runs `ephor preflight --fix`. Afterwards preflight may find nothing that is lost.
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

// lock creates the configuration that locks the cluster.
func (in *installation) lock() {
	in.t.Helper()
	owner := in.kubectl("", "get", "clusterrole", "kyverno:admission-controller", "-o", "jsonpath={.metadata.uid}")
	in.kubectl(strings.ReplaceAll(locking, "OWNER", owner), "apply", "--server-side", "--field-manager=kyverno", "-f", "-")
}

// populate creates the objects that must survive: the recorded ones if available, and our own.
func (in *installation) populate() {
	in.t.Helper()
	in.kubectl("", "wait", "--for=condition=Established", "crd", "--all")
	in.namespace("shop")
	plain := in.subject(map[string]any{"kind": "ConfigMap", "name": "plain", "namespace": "shop"})
	if in.recorded != nil {
		in.recorded.storedVersions(in)
		in.recorded.populate(in)
	}
	if err := in.Wait(in.t.Context(), "the population", func() error { // a new kind is served after a moment
		_, err := in.Kubectl(in.t.Context(), []byte(population+"---"+audited+"---"+strings.ReplaceAll(report, "UID", plain)), "apply", "--server-side", "--field-manager=kyverno", "-f", "-")
		return err
	}); err != nil {
		in.t.Fatal(err)
	}
	in.work()
}

// identities returns the UIDs of all objects that must survive, including definitions, certificates and the owner of the configurations.
func (in *installation) identities() string {
	in.t.Helper()
	out := in.kubectl("", "get", "crd,clusterpolicies.kyverno.io,policies.kyverno.io,clustercleanuppolicies.kyverno.io,validatingpolicies.policies.kyverno.io,"+
		"policyreports.wgpolicyk8s.io,clusterpolicyreports.wgpolicyk8s.io,validatingwebhookconfigurations,mutatingwebhookconfigurations,serviceaccounts,configmaps,leases", "-A", "-o",
		`jsonpath={range .items[?(@.metadata.namespace!="kube-system")]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid}{"\n"}{end}`) + "\n" +
		in.kubectl("", "get", "secrets", "-n", "kyverno", "-l", "cert.kyverno.io/managed-by=kyverno", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.data.tls\.crt}{"\n"}{end}`) + "\n" +
		in.kubectl("", "get", "clusterrole", "kyverno:admission-controller", "-o", "jsonpath={.metadata.name} {.metadata.uid}")
	lines := slices.DeleteFunc(strings.Split(out, "\n"), func(l string) bool {
		// Without the recordings no policy mutates, so both programs have an empty configuration for mutations.
		return l == "" || in.recorded == nil && strings.HasPrefix(l, "MutatingWebhookConfiguration")
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// survived compares the objects that must survive with those before.
func (in *installation) survived(what, before string) {
	in.t.Helper()
	after := in.identities()
	for line := range strings.SplitSeq(before, "\n") {
		if !strings.Contains(after, line) {
			in.t.Errorf("%s: lost %s", what, line)
		}
	}
}

// runs checks whether the Deployments are those of Ephor, or of Kyverno.
func (in *installation) runs(ephor bool) {
	in.t.Helper()
	got := in.kubectl("", "get", "deployments", "-n", "kyverno", "-o", `jsonpath={range .items[*]}{.spec.template.spec.initContainers[*].name} {.spec.template.spec.containers[*].image}{"\n"}{end}`)
	lines := strings.Split(got, "\n")
	for _, line := range lines {
		if strings.Contains(line, "/ephor:") != ephor || strings.Contains(line, "kyverno-pre") == ephor {
			in.t.Errorf("a Deployment has the init container and the image %q", line)
		}
	}
	if len(lines) != 4 {
		in.t.Errorf("%d Deployments", len(lines))
	}
}

// none checks that preflight finds nothing urgent except what is allowed.
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

// Helm, with Kyverno stopped and webhooks that select the objects of the release: the upgrade is denied, since the webhooks fail closed and
// no server answers, until they are unlocked. Violating objects are admitted only while they are unlocked.
func TestHelmLocked(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.mustHelm("install", "kyverno", in.kyverno, "--create-namespace", "--set", given, "--server-side=false")
	kyverno := in.kyvernoRuns()
	p := startProbe(t, in)
	before := without("WebhookConfiguration", in.identities()) // they are created again
	in.step("## Helm")
	in.fix()
	values := in.values()
	in.step("helm upgrade kyverno charts/ephor -n kyverno -f values.yaml")
	upgrade := []string{"upgrade", "kyverno", in.ephor, "-f", values}
	var ours map[string]*devcluster.Replica
	p.swap(t, func() {
		kyverno.end()
		in.locked()
		if err := in.helm(upgrade...); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("the upgrade is not refused: %v", err)
		}
		in.step("## When Kyverno is stopped already")
		p.unlocked(t, func() {
			in.step("ephor unlock --for 10m")
			in.unlock("--for", "10m")
			in.step("helm upgrade kyverno charts/ephor -n kyverno -f values.yaml --wait")
			in.mustHelm(upgrade...)
			in.step("ephor unlock --restore")
			in.unlock("--restore")
			in.enforces("the restored webhooks fail closed", false)
		})
		ours = in.startEphor()
	})
	in.ephorWorks("there")
	in.survived("there", before)
	in.runs(true)
	in.has(false, true)
	if got := in.kubectl("", "get", "deployment", "kyverno-admission-controller", "-n", "kyverno", "-o", "jsonpath={.spec.replicas}"); got != "2" {
		t.Errorf("%s replicas: the values are lost", got)
	}
	in.none()
	p.check(t, "there")

	// Back, with Ephor stopped: its webhooks are not restored, since Kyverno writes its own.
	p.swap(t, func() {
		in.stopEphor(ours)
		in.locked()
		if err := in.helm("upgrade", "kyverno", in.kyverno, "-f", values); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("the upgrade back is not refused: %v", err)
		}
		p.unlocked(t, func() {
			in.unlock("--for", "10m")
			in.mustHelm("upgrade", "kyverno", in.kyverno, "-f", values)
			in.startKyverno("1")
		})
	})
	in.runs(false)
	in.has(true, false)
	if out, all, _ := in.ephorCommand("uninstall", "--leave-policies", "--dry-run"); !strings.Contains(out, "ephor-unlocked-webhooks") {
		t.Errorf("what unlocking leaves is not listed: %s", all)
	}
	in.kyvernoWorks("back", before)
	p.check(t, "back")
}

// locked waits until the webhooks deny the objects that they select, including roles of a release, and preflight reports it.
func (in *installation) locked() {
	in.t.Helper()
	in.beside()
	in.answered(false)
	in.enforces("without a server the webhooks fail closed", false)
	in.lock()
	if codes, _ := in.preflight(); codes["webhook-unanswered"] == 0 {
		in.t.Errorf("preflight does not find the webhook that no server answers: %v", codes)
	}
	suite.Until(in.t, "no role can be created", func() error {
		if _, err := in.Kubectl(in.t.Context(), nil, "create", "clusterrole", "locked", "--verb=get", "--resource=pods", "--dry-run=server"); err == nil {
			return errors.New("it can")
		}
		return nil
	})
}

func (in *installation) unlock(args ...string) {
	in.t.Helper()
	if _, all, code := in.ephorCommand(append([]string{"unlock"}, args...)...); code != 0 {
		in.t.Fatal(all)
	}
}

// values stores the values of the release, as the guide does.
func (in *installation) values() (file string) {
	in.t.Helper()
	in.step("helm get values kyverno -n kyverno -o yaml > values.yaml")
	text, err := helm.Run("get", "values", "kyverno", "-o", "yaml", "--kubeconfig="+in.Kubeconfig, "--namespace=kyverno")
	if err != nil {
		in.t.Fatal(err)
	}
	file = filepath.Join(in.t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		in.t.Fatal(err)
	}
	return file
}

// without returns the lines of identities that do not contain the text.
func without(text, identities string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(identities, "\n"), func(l string) bool { return strings.Contains(l, text) }), "\n")
}

// Helm upgrades the release to Ephor and back.
func TestHelm(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.mustHelm("install", "kyverno", in.kyverno, "--create-namespace", "--set", given, "--server-side=false")
	in.step("## Helm")
	var values string
	in.rolling(way{
		ephor: func(first bool, set ...string) {
			if first {
				in.fix()
				values = in.values()
				in.step("helm upgrade kyverno charts/ephor -n kyverno -f values.yaml")
			}
			if len(set) > 0 {
				in.mustHelm(slices.Concat([]string{"upgrade", "kyverno", in.ephor, "--reuse-values"}, sets(set))...)
			} else {
				in.mustHelm("upgrade", "kyverno", in.ephor, "-f", values)
			}
			in.has(false, true)
		},
		kyverno: func() {
			in.mustHelm("upgrade", "kyverno", in.kyverno, "-f", values)
			in.has(true, false)
		},
	})
	in.step("## Back to Kyverno")
	in.step("helm upgrade kyverno charts/ephor -n kyverno --reuse-values --set " + plainPaths + " --wait")
	in.step("ephor uninstall --leave-policies")
}

func sets(values []string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// Flux upgrades the release like Helm with server-side apply, and labels every object of it.
func TestFlux(t *testing.T) {
	t.Parallel()
	in := begin(t)
	upgrade := []string{"--server-side=true", "--force-conflicts", "--set", given, "--set", `customLabels.helm\.toolkit\.fluxcd\.io/name=kyverno`}
	in.mustHelm("install", "kyverno", in.kyverno, "--create-namespace", "--server-side=true")
	in.kubectl("", "label", "deployments,clusterroles,crd", "-n", "kyverno", "-l", "app.kubernetes.io/part-of=kyverno", "helm.toolkit.fluxcd.io/name=kyverno", "--field-manager=helm-controller")
	in.step("## Flux")
	in.rolling(way{
		ephor: func(first bool, set ...string) {
			if first {
				in.step("flux suspend helmrelease kyverno")
				in.fix()
				in.step("flux resume helmrelease kyverno")
			}
			in.mustHelm(slices.Concat([]string{"upgrade", "kyverno", in.ephor}, upgrade, sets(set))...)
			in.has(false, true)
		},
		kyverno: func() {
			in.mustHelm("upgrade", "kyverno", in.kyverno, "--server-side=true", "--force-conflicts")
			in.has(true, false)
		},
	})
}

// tracking is the annotation by which Argo CD finds the objects of an Application.
const tracking = "argocd.argoproj.io/tracking-id"

// sync does the requests of a sync of Argo CD: it applies the rendered chart on the server, with an annotation on each object and forced
// conflicts. With prune, it deletes objects that have the annotation but are not in the chart, unless their sync options keep them.
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

// Argo CD renders the chart, applies it on the server, and prunes objects that the chart no longer contains.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.kubectl("", "create", "namespace", "kyverno")
	kyverno := in.read("all.yaml")
	in.sync(kyverno, false)
	in.step("## Argo CD")
	in.rolling(way{
		ephor: func(first bool, set ...string) {
			ephor := in.template(set...)
			if first {
				in.step("argocd app set kyverno --sync-policy none")
				in.fix()
				in.step("ServerSideApply=true")
				in.step("argocd app sync kyverno`")
				in.sync(ephor, false)
				in.has(true, true)
				in.step("`--prune`")
			}
			in.sync(ephor, true)
			in.has(false, true)
		},
		kyverno: func() {
			// A chart that omits definitions, like Kyverno's with a group of them disabled, does not delete them.
			in.sync(print(t, slices.DeleteFunc(parse(t, kyverno), func(o object) bool {
				name, _ := o.metadata()["name"].(string)
				return o["kind"] == "CustomResourceDefinition" && strings.HasSuffix(name, ".policies.kyverno.io")
			})), true)
			in.has(true, false)
		},
	}).stopped()
}

// read returns a file of the chart that represents Kyverno's.
func (in *installation) read(file string) string {
	in.t.Helper()
	text, err := os.ReadFile(filepath.Join(in.kyverno, file))
	if err != nil {
		in.t.Fatal(err)
	}
	return string(text)
}

// Plain manifests: created by kubectl, and applied over in both ways that kubectl has.
func TestManifests(t *testing.T) {
	t.Parallel()
	in := begin(t)
	in.kubectl("", "create", "namespace", "kyverno")
	kyverno := in.read("all.yaml")
	in.kubectl(kyverno, "create", "-f", "-")
	orphan := []string{"delete", "deployment", "-n", "kyverno", "-l", "app.kubernetes.io/part-of=kyverno", "--cascade=orphan"}
	in.step("## Plain manifests")
	in.rolling(way{
		unkept: true,
		ephor: func(first bool, set ...string) {
			if first {
				// A client-side apply keeps the init container, which preflight reports.
				if codes, _ := in.preflight(); codes["init-container"] != 4 {
					t.Errorf("preflight finds %v", codes)
				}
				in.step("kubectl " + strings.Join(orphan, " "))
				in.step("kubectl apply --server-side --force-conflicts -f install.yaml")
			}
			in.kubectl("", orphan...)
			in.kubectl(in.template(set...), "apply", "--server-side", "--force-conflicts", "-f", "-")
		},
		kyverno: func() {
			in.kubectl("", orphan...)
			in.kubectl(kyverno, "apply", "--server-side", "--force-conflicts", "-f", "-")
		},
	})
	// The reports of the Deployments end with them.
	before := without("PolicyReport "+suite.Namespace+"/", in.identities())
	in.step("kubectl apply -f install.yaml")
	in.kubectl("", orphan...)
	in.kubectl(in.template(), "apply", "-f", "-")
	in.survived("there, client-side", before)
	in.runs(true)
}

// way is a way to install the programs. Each function changes the installation with the tools of the way only.
type way struct {
	// ephor installs Ephor's chart, with these values in addition to those of the installation. The first time it follows the guide's steps.
	ephor func(first bool, set ...string)
	// kyverno installs the chart that represents Kyverno's.
	kyverno func()
	// unkept: the tools never delete definitions, so none of them is marked to be kept.
	unkept bool
}

// change is an installation on its way from Kyverno to Ephor and back. Meanwhile a probe sends violating and valid objects.
type change struct {
	*installation
	way
	kyvernos *standIn
	probe    *probe
	before   string // identities of the objects that must survive
}

// rolling changes from Kyverno to Ephor and back while both run.
func (in *installation) rolling(w way) *change {
	t := in.t
	t.Helper()
	kyverno := in.kyvernoRuns()
	p := startProbe(t, in)
	before := in.identities()
	var allowed []string
	if w.unkept {
		allowed = append(allowed, "definition-not-kept")
	}

	// To Ephor, rolling: Ephor starts while Kyverno runs, and Kyverno stops when Ephor is ready.
	w.ephor(true)
	in.runs(true)
	ours := in.startEphor()
	p.swap(t, func() { in.beside(); kyverno.leave(t) })
	in.ephorWorks("there")
	in.survived("there", before)
	in.none(allowed...)
	p.check(t, "there, both running")

	// Back to Kyverno, rolling: with plain paths, which Kyverno answers, while both run.
	w.ephor(false, plainPaths)
	in.replace(p, ours)
	suite.Until(t, "the webhooks have plain paths", func() error {
		paths := in.kubectl("", "get", "validatingwebhookconfigurations", resourceWebhooks, "-o", "jsonpath={.webhooks[*].clientConfig.service.path}")
		for path := range strings.FieldsSeq(paths) {
			if !strings.HasPrefix(path, "/validate/") && !strings.HasPrefix(path, "/vpol/") {
				return fmt.Errorf("%s", paths)
			}
		}
		return nil
	})
	p.check(t, "without secret paths")
	w.kyverno()
	in.runs(false)
	in.leftForKyverno(ours[devcluster.Background], "left", func() {
		kyverno = in.startKyverno("1")
		p.swap(t, func() { in.stopEphor(ours) })
	})
	in.kyvernoWorks("back", before)
	p.check(t, "back, both running")
	return &change{installation: in, way: w, kyvernos: kyverno, probe: p, before: before}
}

// stopped changes to Ephor and back with one program stopped before the other starts. TestHelmLocked does it with Helm, and Argo CD writes and
// deletes all that kubectl writes, so the other ways do without.
func (in *change) stopped() {
	t, w, p, before := in.t, in.way, in.probe, in.before
	t.Helper()

	// To Ephor, with Kyverno stopped first.
	var ours map[string]*devcluster.Replica
	p.swap(t, func() {
		in.kyvernos.end()
		in.beside()
		in.answered(false)
		in.enforces("without a server the webhooks fail closed", false)
		w.ephor(false)
		ours = in.startEphor()
	})
	in.ephorWorks("there again")
	in.survived("there again", before)
	p.check(t, "there, Kyverno stopped")

	// Back to Kyverno, with Ephor stopped first. The webhooks have secret paths, which no server answers.
	p.swap(t, func() {
		in.stopEphor(ours)
		in.answered(false)
		in.enforces("without a server the webhooks fail closed", false)
		w.kyverno()
		in.startKyverno("2")
	})
	in.runs(false)
	in.kyvernoWorks("back again", before)
	p.check(t, "back, Ephor stopped")
}

// kyvernoRuns creates the objects that must survive, and starts the stand-in.
func (in *installation) kyvernoRuns() *standIn {
	in.t.Helper()
	root, err := devcluster.Root()
	if err != nil {
		in.t.Fatal(err)
	}
	in.kubectl("", "wait", "--for=condition=Established", "crd", "--all")
	if in.Ephor, err = in.Adopt(in.t.Context(), suite.Namespace, filepath.Join(root, "bin", "ephor")); err != nil {
		in.t.Fatal(err)
	}
	in.populate()
	return in.startKyverno("0") // the suffix of the recorded holders' names
}

// startKyverno starts the stand-in behind the Services.
func (in *installation) startKyverno(pod string) *standIn {
	in.t.Helper()
	s := startStandIn(in.t, in.Client, in.recorded, pod)
	in.beside(s)
	in.answered(true)
	in.enforces("the stand-in enforces", true)
	return s
}

// endpoints returns the endpoints of the Pods of a Deployment.
const endpoints = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-pods, namespace: kyverno, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [192.0.2.1], conditions: {ready: %[2]v}}]
ports: [{name: https, port: 9443}]
`

// answered writes the Services' endpoints, since no Pods run here: whether a server answers behind them.
func (in *installation) answered(ready bool) {
	in.t.Helper()
	in.kubectl(fmt.Sprintf(endpoints, charts.AdmissionService, ready)+"---"+fmt.Sprintf(endpoints, charts.CleanupService, ready), "apply", "-f", "-")
}

// startEphor starts Ephor's controllers with the arguments of the current Deployments.
func (in *installation) startEphor() map[string]*devcluster.Replica {
	in.t.Helper()
	if err := in.Ephor.Refresh(in.t.Context(), suite.Namespace); err != nil {
		in.t.Fatal(err)
	}
	replicas := map[string]*devcluster.Replica{}
	for _, component := range in.Ephor.Components() {
		replicas[component] = in.Start(in.t, component)
	}
	in.answered(true)
	return replicas
}

// replace replaces Ephor's controllers as a Deployment does: new ones are ready before old ones end.
func (in *installation) replace(p *probe, replicas map[string]*devcluster.Replica) {
	in.t.Helper()
	old := maps.Clone(replicas)
	maps.Copy(replicas, in.startEphor())
	p.swap(in.t, func() { in.stopEphor(old) })
}

func (in *installation) stopEphor(replicas map[string]*devcluster.Replica) {
	in.t.Helper()
	for _, component := range slices.Sorted(maps.Keys(replicas)) {
		suite.Stop(in.t, replicas[component])
	}
}

// ephorWorks waits until Ephor leads and has executed the open work once, and until the reports controller has updated the existing reports.
func (in *installation) ephorWorks(what string) {
	in.t.Helper()
	in.owned("kyverno:admission-controller")
	in.worked()
	in.kubectl("", "wait", "--for=condition=Ready", "clusterpolicy", "--all")
	in.kubectl("", "wait", "--for=jsonpath={.status.conditionStatus.ready}=true", "validatingpolicy", "--all")
	uid := in.subject(map[string]any{"kind": "ConfigMap", "name": "new-" + strings.ReplaceAll(what, " ", "-"), "namespace": "shop"})
	suite.Until(in.t, "a new resource is reported", func() error {
		_, err := in.Kubectl(in.t.Context(), nil, "get", "policyreport", uid, "-n", "shop")
		return err
	})
	in.once(what)
}

// kyvernoWorks waits until the stand-in writes the webhook configurations. Existing objects must survive, and Ephor's own are deleted.
func (in *installation) kyvernoWorks(what, before string) {
	in.t.Helper()
	in.owned("")
	in.survived(what, before)
	in.once(what)
	suite.Until(in.t, "Ephor is uninstalled", func() error { // the last Leases expire
		if _, all, code := in.ephorCommand("uninstall", "--leave-policies", "--yes"); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, all)
		}
		return nil
	})
	if out, all, code := in.ephorCommand("uninstall", "--leave-policies", "--yes"); code != 0 || out != "nothing of Ephor is left\n" {
		in.t.Errorf("%s: exit code %d: %s", what, code, all)
	}
	in.survived(what+", uninstalled", before)
	in.nothingLeft(what)
}

// nothingLeft checks that the objects that Ephor created are deleted, with its labels and annotations, except those that the guide lists.
func (in *installation) nothingLeft(what string) {
	in.t.Helper()
	stay := []string{"ephor.dev/generated", "ephor.dev/cleanup-run", "ephor.dev/report-seal", "ephor.dev/work-key", "ephor.dev/leader"}
	_, rest, _ := strings.Cut(in.guide, "\n## Back to Kyverno\n")
	for _, name := range stay {
		if !strings.Contains(rest, "`"+name+"`") {
			in.t.Errorf("the guide does not say that %s stays", name)
		}
	}
	var all struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Namespace, Name     string
				Labels, Annotations map[string]string
			}
		}
	}
	text := in.kubectl("", "get", "secrets,configmaps,leases,namespaces,serviceaccounts,services,deployments,roles,rolebindings,clusterroles,clusterrolebindings,crd,"+
		"validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,clusterpolicies.kyverno.io,policies.kyverno.io,clustercleanuppolicies.kyverno.io,"+
		"validatingpolicies.policies.kyverno.io,policyreports.wgpolicyk8s.io,clusterpolicyreports.wgpolicyk8s.io,ephemeralreports.reports.kyverno.io,updaterequests.kyverno.io", "-A", "-o", "json")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		in.t.Fatal(err)
	}
	for _, o := range all.Items {
		name := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
		if strings.HasPrefix(o.Metadata.Name, "ephor") {
			in.t.Errorf("%s: %s is left", what, name)
		}
		for key := range o.Metadata.Labels {
			if strings.HasPrefix(key, "ephor.dev/") && !slices.Contains(stay, key) {
				in.t.Errorf("%s: %s still has the label %s", what, name, key)
			}
		}
		for key := range o.Metadata.Annotations {
			if strings.HasPrefix(key, "ephor.dev/") && !slices.Contains(stay, key) {
				in.t.Errorf("%s: %s still has the annotation %s", what, name, key)
			}
		}
	}
}
