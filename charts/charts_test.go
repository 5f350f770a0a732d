package charts_test

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/config/crds"
	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/hack/chart/values"
	"ephor.invalid/ephor/internal/certs"
)

var update = flag.Bool("update", false, "rewrite testdata/*.diff")

// TestMain builds the pinned Helm, which takes minutes the first time and a second later.
func TestMain(m *testing.M) {
	flag.Parse()
	cmd := exec.Command("../hack/helm.sh")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "charts: build Helm:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// template renders the chart; without flags it has no CustomResourceDefinitions, which are long.
func template(t *testing.T, args ...string) []helm.Document {
	t.Helper()
	docs, err := helm.Template("ephor", helm.Release, append([]string{"-f", "testdata/base.values"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestLint(t *testing.T) {
	if out, err := helm.Run("lint", "--strict", "ephor"); err != nil {
		t.Fatal(err, out)
	}
}

// Each file testdata/⟨switch⟩.yaml contains values; testdata/⟨switch⟩.diff is their effect on the default render.
func TestSwitches(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	before := template(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			got := changes(before, template(t, "-f", file))
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
			if d := diff.Diff(golden, want, "now", []byte(got)); len(d) > 0 {
				t.Errorf("the chart renders something else (go test ./charts -update rewrites the file):\n%s", d)
			}
			if got == "" {
				t.Error("these values change nothing")
			}
		})
	}
}

var (
	diffHead = regexp.MustCompile(`(?s)^diff .*?\n\+\+\+ [^\n]*\n`)
	hunkHead = regexp.MustCompile(`(?m)^@@ .*$`)
)

// longText contains the places at which objects with files of the repository are cut.
var longText = map[string]string{"CustomResourceDefinition crds": "\nspec:", "PrometheusRule monitoring": "\nspec:", "ConfigMap monitoring": "\ndata:"}

// changes returns the differences between the documents: added objects with their text, removed objects, and the changed lines of others.
func changes(before, after []helm.Document) string {
	var out strings.Builder
	old := map[string]string{}
	for _, d := range before {
		old[d.ID()] = d.Text
	}
	for _, d := range after {
		was, known := old[d.ID()]
		delete(old, d.ID())
		switch {
		case !known:
			text := d.Text
			if end, long := longText[d.Kind+" "+d.Labels["app.kubernetes.io/component"]]; long {
				text, _, _ = strings.Cut(text, end)
			}
			fmt.Fprintf(&out, "== %s: new\n%s\n", d.ID(), strings.TrimRight(text, "\n"))
		case was != d.Text:
			hunks := diffHead.ReplaceAllString(string(diff.Diff("old", []byte(was), "new", []byte(d.Text))), "")
			fmt.Fprintf(&out, "== %s: changed\n%s", d.ID(), hunkHead.ReplaceAllString(hunks, "@@"))
		}
	}
	for _, d := range before {
		if _, gone := old[d.ID()]; gone {
			fmt.Fprintf(&out, "== %s: gone\n", d.ID())
		}
	}
	return out.String()
}

// The embedded renders equal Helm's, including CustomResourceDefinitions.
func TestRendered(t *testing.T) {
	for _, name := range []string{"conformance", "dashboard", "dev", "e2e", "standard"} {
		text, err := charts.YAML(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := helm.Split(string(text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := helm.Template("ephor", helm.Release, "-f", "values/"+name+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d objects, the chart renders %d", name, len(got), len(want))
			continue
		}
		definitions := 0
		for i := range got {
			if got[i].ID() != want[i].ID() || !same(t, got[i], want[i]) {
				t.Errorf("%s: %s differs from what the chart renders: run hack/generate.sh", name, want[i].ID())
			}
			if got[i].Kind == "CustomResourceDefinition" {
				definitions++
			}
		}
		if definitions < 6 {
			t.Errorf("%s: only %d definitions", name, definitions)
		}
	}
}

// same reports whether both texts are equal. Definitions are JSON in one and YAML in the other.
func same(t *testing.T, a, b helm.Document) bool {
	t.Helper()
	if a.Kind != "CustomResourceDefinition" {
		return a.Text == b.Text
	}
	var x, y any
	if err := errors.Join(yaml.Unmarshal([]byte(a.Text), &x), yaml.Unmarshal([]byte(b.Text), &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// The chart's definitions equal those of config/crds, except for descriptions.
func TestDefinitions(t *testing.T) {
	for _, d := range template(t, "--set", "crds.install=true", "--set-json", "crds.annotations={}") {
		if d.Kind != "CustomResourceDefinition" {
			continue
		}
		plural, group, _ := strings.Cut(d.Name, ".")
		var got, want apiextensionsv1.CustomResourceDefinition
		if err := errors.Join(yaml.UnmarshalStrict([]byte(d.Text), &got), yaml.UnmarshalStrict(crds.File(group+"_"+plural+".yaml"), &want)); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(got.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
			return spec.Type == "" || spec.Description != ""
		}) {
			t.Errorf("%s: nothing for kubectl explain", d.Name)
		}
		got.ObjectMeta, want.ObjectMeta = metav1.ObjectMeta{}, metav1.ObjectMeta{}
		if !reflect.DeepEqual(bare(t, got), bare(t, want)) {
			t.Errorf("%s is not that of config/crds: run hack/generate.sh", d.Name)
		}
	}
}

// bare returns the definition as plain values without descriptions.
func bare(t *testing.T, d apiextensionsv1.CustomResourceDefinition) any {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	strip(v)
	return v
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, isText := v["description"].(string); isText {
			delete(v, "description")
		}
		for _, below := range v {
			strip(below)
		}
	case []any:
		for _, below := range v {
			strip(below)
		}
	}
}

// The objects have Kyverno's names, whatever the name of the release. Without a namespace for Helm they are in `kyverno`, which the chart
// creates.
func TestNames(t *testing.T) {
	for _, d := range template(t) {
		if !strings.HasPrefix(d.Name, "kyverno") || d.Namespace != "" && d.Namespace != "kyverno" {
			t.Errorf("unexpected name: %s", d.ID())
		}
	}
	out, err := helm.Run("template", "some-release", "ephor", "--set", "crds.install=false")
	if err != nil {
		t.Fatal(err)
	}
	out = strings.ReplaceAll(out, "app.kubernetes.io/instance: some-release", "app.kubernetes.io/instance: kyverno")
	other, err := helm.Split(olderLabels.ReplaceAllString(out, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := changes(template(t), other); !strings.HasPrefix(got, "== Namespace kyverno: new\n") || strings.Count(got, "==") != 1 {
		t.Errorf("another release, without a namespace, differs in:\n%s", got)
	}
}

// olderLabels matches the part that only a release with another name renders; TestAggregation tests it.
var olderLabels = regexp.MustCompile(`  # The labels of roles that users wrote for Kyverno.*\n  - matchLabels:\n(?:      .*\n)+`)

// The dashboard and the alerts equal the files of the chart.
func TestMonitoring(t *testing.T) {
	for _, d := range template(t, "-f", "testdata/monitoring.yaml") {
		if d.Labels["app.kubernetes.io/component"] != "monitoring" {
			continue
		}
		var got struct {
			Data map[string]string
			Spec any
		}
		if err := yaml.Unmarshal([]byte(d.Text), &got); err != nil {
			t.Fatal(err)
		}
		switch d.Kind {
		case "ConfigMap":
			want, err := os.ReadFile("ephor/dashboards/ephor.json")
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(got.Data["ephor.json"]) != strings.TrimSpace(string(want)) {
				t.Error("the dashboard is not that of the file")
			}
		case "PrometheusRule":
			want, err := os.ReadFile("ephor/alerts/ephor.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var rules any
			if err := yaml.Unmarshal(want, &rules); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Spec, rules) {
				t.Error("the alerts are not those of the file")
			}
		}
	}
}

// Rules of prometheusRule.spec follow ours: groups unchanged, single rules in their own group.
func TestMoreAlerts(t *testing.T) {
	docs := template(t, "-f", "testdata/monitoring.yaml", "--set-json", `prometheusRule.spec=[{"name":"mine","rules":[{"alert":"A","expr":"up"}]},{"alert":"B","expr":"up"},{"alert":"C","expr":"up"}]`,
		"--set", "prometheusRule.additionalLabels.team=platform,prometheusRule.additionalAnnotations.note=mine")
	for _, d := range docs {
		if d.Kind != "PrometheusRule" {
			continue
		}
		var got struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				Groups []struct {
					Name  string
					Rules []struct{ Alert string }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(d.Text), &got); err != nil {
			t.Fatal(err)
		}
		groups := got.Spec.Groups
		if n := len(groups); n < 3 || groups[n-2].Name != "mine" || groups[n-1].Name != "kyverno-more" || len(groups[n-1].Rules) != 2 || groups[n-1].Rules[1].Alert != "C" {
			t.Errorf("%+v", groups)
		}
		if l := got.Metadata.Labels; l["team"] != "platform" || l["release"] != "prometheus" || got.Metadata.Annotations["note"] != "mine" {
			t.Errorf("%+v", got.Metadata)
		}
		return
	}
	t.Error("there is no PrometheusRule")
}

// A reports-server serves the kinds of reports itself, so the chart omits their definitions.
func TestReportsServer(t *testing.T) {
	for _, d := range template(t, "--set", "crds.install=true,crds.reportsServer.enabled=true,openreports.installCrds=true") {
		if d.Kind == "CustomResourceDefinition" && !strings.HasSuffix(d.Name, ".kyverno.io") || strings.HasSuffix(d.Name, ".reports.kyverno.io") {
			t.Errorf("%s is installed", d.ID())
		}
	}
}

// With overridden names no object, and no reference to one, has a default name.
func TestOverriddenNames(t *testing.T) {
	docs := template(t, "-f", "testdata/names.values")
	if len(docs) != len(template(t))+1 { // the Namespace
		t.Errorf("%d objects", len(docs))
	}
	for _, d := range docs {
		if !strings.HasPrefix(d.Name, "guard") && d.ID() != "Namespace security" || d.Namespace != "" && d.Namespace != "security" {
			t.Errorf("unexpected name: %s", d.ID())
		}
		if !strings.Contains(d.Text, "team: platform") {
			t.Errorf("%s lacks the custom label", d.ID())
		}
		for line := range strings.SplitSeq(d.Text, "\n") {
			if defaultName.MatchString(fixedNames.Replace(line)) {
				t.Errorf("%s: %s", d.ID(), line)
			}
		}
	}
}

// defaultName matches a name of ours that must follow the overrides; fixedNames never do.
var (
	defaultName = regexp.MustCompile(`kyverno[-:]|(namespace|name): kyverno$|,kyverno,`)
	fixedNames  = strings.NewReplacer(".svc.kyverno-tls-", "", "kyverno-svc.kyverno.io", "", "- name: kyverno", "")
)

// With everything enabled, the chart has no hook, no finalizer, and no image except ours.
func TestNoHooks(t *testing.T) {
	args := []string{}
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		switch filepath.Base(file) {
		case "cleanup-off.yaml", "rbac-off.yaml", "image.yaml", "single-process.yaml":
		default:
			args = append(args, "-f", file)
		}
	}
	for _, d := range template(t, args...) {
		if strings.Contains(d.Text, "helm.sh/hook") || strings.Contains(d.Text, "finalizers") || d.Kind == "Job" || d.Kind == "CronJob" {
			t.Errorf("%s has a hook, a finalizer or is a Job", d.ID())
		}
		var o struct {
			Spec struct {
				Template struct {
					Spec struct {
						InitContainers []any
						Containers     []struct{ Image string }
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(d.Text), &o); err != nil {
			continue // a spec of another form
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			if c.Image != "ephor.invalid/ephor:"+version(t) {
				t.Errorf("%s has the image %s", d.ID(), c.Image)
			}
		}
	}
}

func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("ephor/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(text, &c); err != nil || c.Version != c.AppVersion {
		t.Fatal(c, err)
	}
	return c.AppVersion
}

// Helm rejects wrong values, with a message that helps.
func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"admissionController.replicaCount=3":                             "additional properties 'replicaCount' not allowed",
		"admissionController.replicas=0":                                 "admissionController.replicas must be at least 1",
		"admissionController.replicas=many":                              "got string, want",
		"features.logging.format=xml":                                    "value must be one of 'text', 'json'",
		"namespaceOverride=kube-system":                                  "leaves kube-system alone",
		"crds.install=true,crds.groups.kyverno.policies=false":           "cannot do without this kind",
		"features.policyException.enabled=true":                          "additional properties 'policyException' not allowed",
		"singleProcess.enabled=true,cleanupController.deadManSeconds=60": "may not be the admission controller itself",
		"cleanupController.deadManSeconds=29":                            "must be 0, for never, or at least 30",
		"singleProcess.enabled=true,cleanupController.service.port=8443": "service.port has to be the same",
		"cleanupController.featuresOverride.loging.format=json":          "additional properties 'loging' not allowed",
		"cleanupController.featuresOverride.logging.format=xml":          "value must be one of 'text', 'json'",
		"config.webhooks=all":                                            "config.webhooks must be a map",
		"config.webhooks[0].a=b,config.webhooks[1].a=b":                  "a list may have one element",
		"admissionController.certManager.enabled=true,admissionController.certManager.createSelfSignedIssuer=false": "the issuer has to be named by issuerRef",
		"admissionController.tlsKeyAlgorithm=DSA":                                                "value must be one of 'RSA', 'ECDSA', 'Ed25519'",
		"cleanupController.certManager.enabled=true,cleanupController.createSelfSignedCert=true": "two sources of one certificate",
	} {
		if _, err := helm.Template("ephor", helm.Release, "--set", args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", args, err, want)
		}
	}
}

// Values that users of Kyverno's chart have in their files are accepted.
func TestKyvernoValues(t *testing.T) {
	if got := changes(template(t), template(t, "-f", "testdata/ignored.values")); got != "" {
		t.Errorf("values without effect change something:\n%s", got)
	}
	var given map[string]any
	text, err := os.ReadFile("testdata/ignored.values")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	// The file contains every value that values.yaml marks as ignored.
	for _, v := range parse(t) {
		if v.Ignored && !has(given, strings.Split(v.Path, ".")) {
			t.Errorf("testdata/ignored.values lacks %s", v.Path)
		}
	}
}

func has(m map[string]any, path []string) bool {
	v, ok := m[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	below, ok := v.(map[string]any)
	return ok && has(below, path[1:])
}

func parse(t *testing.T) []*values.Value {
	t.Helper()
	text, err := os.ReadFile("ephor/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	root, err := values.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var all []*values.Value
	root.Walk(func(v *values.Value) { all = append(all, v) })
	return all
}

// A template reads every value that is not marked as ignored. Each value, or its parent, has a description.
func TestValuesAreUsed(t *testing.T) {
	var text strings.Builder
	err := filepath.WalkDir("ephor/templates", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		text.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range parse(t) {
		if v.Ignored {
			continue
		}
		if v.Type != "object" && !regexp.MustCompile(`[."]`+regexp.QuoteMeta(v.Name)+`\b`).MatchString(text.String()) && !strings.HasPrefix(v.Path, "crds.groups.") {
			t.Errorf("no template reads %s", v.Path)
		}
	}
}

// A self-signed certificate has the right name, type and algorithm, and a key that the controllers can read.
func TestSelfSigned(t *testing.T) {
	for algorithm, want := range map[string]x509.PublicKeyAlgorithm{"RSA": x509.RSA, "ECDSA": x509.ECDSA, "Ed25519": x509.Ed25519} {
		docs := template(t, "--set", "admissionController.createSelfSignedCert=true", "--set", "admissionController.tlsKeyAlgorithm="+algorithm)
		found := 0
		for _, d := range docs {
			if d.Kind != "Secret" {
				continue
			}
			found++
			var s struct {
				Type string
				Data map[string][]byte
			}
			if err := yaml.Unmarshal([]byte(d.Text), &s); err != nil {
				t.Fatal(err)
			}
			pair, err := certs.ParsePair(s.Data["tls.crt"], s.Data["tls.key"])
			if err != nil || s.Type != "kubernetes.io/tls" || pair.Newest().PublicKeyAlgorithm != want {
				t.Errorf("%s: %s: %s, %v", algorithm, d.ID(), s.Type, err)
			}
		}
		if found != 2 || !reflect.DeepEqual(names(docs, "Secret"), []string{charts.AdmissionCASecret, charts.AdmissionTLSSecret}) {
			t.Errorf("%s: %v", algorithm, names(docs, "Secret"))
		}
	}
}

func names(docs []helm.Document, kind string) []string {
	var out []string
	for _, d := range docs {
		if d.Kind == kind {
			out = append(out, d.Name)
		}
	}
	return out
}
