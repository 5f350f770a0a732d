package charts_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	psapi "k8s.io/pod-security-admission/api"
	pspolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/hack/chart/helm"
	"ephor.invalid/ephor/internal/app"
	"ephor.invalid/ephor/internal/settings"
)

var rendered = struct {
	sync.Once
	all map[string][]helm.Document
}{}

// renders returns the default render, those of all switches, and the embedded ones.
func renders(t *testing.T) map[string][]helm.Document {
	t.Helper()
	rendered.Do(func() { rendered.all = render(t) })
	return rendered.all
}

func render(t *testing.T) map[string][]helm.Document {
	all := map[string][]helm.Document{"default": template(t)}
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		all[file] = template(t, "-f", file)
	}
	for _, name := range []string{"conformance", "dashboard", "dev", "e2e", "standard"} {
		text, err := charts.YAML(name)
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = helm.Split(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// decode decodes all documents of one kind, and fails on unknown fields.
func decode[T any](t *testing.T, docs []helm.Document, kind string) []T {
	t.Helper()
	var out []T
	for _, d := range docs {
		if d.Kind != kind {
			continue
		}
		var o T
		if err := yaml.UnmarshalStrict([]byte(d.Text), &o); err != nil {
			t.Errorf("%s: %v\n%s", d.ID(), err, d.Text)
			continue
		}
		out = append(out, o)
	}
	return out
}

// Objects of Kubernetes' own kinds have no unknown fields.
func TestFields(t *testing.T) {
	for name, docs := range renders(t) {
		seen := map[string]bool{}
		for _, d := range docs {
			if seen[d.ID()] {
				t.Errorf("%s: %s is there twice", name, d.ID())
			}
			seen[d.ID()] = true
			gv, err := schema.ParseGroupVersion(d.APIVersion)
			if err != nil {
				t.Fatal(err)
			}
			if gvk := gv.WithKind(d.Kind); scheme.Scheme.Recognizes(gvk) {
				o, err := scheme.Scheme.New(gvk)
				if err != nil {
					t.Fatal(err)
				}
				if err := yaml.UnmarshalStrict([]byte(d.Text), o); err != nil {
					t.Errorf("%s: %s: %v", name, d.ID(), err)
				}
			}
		}
	}
}

// The processes accept the flags of their Deployments, and no default flag is without effect.
func TestFlags(t *testing.T) {
	for name, docs := range renders(t) {
		for _, d := range decode[appsv1.Deployment](t, docs, "Deployment") {
			args := d.Spec.Template.Spec.Containers[0].Args
			root := app.NewControllerCommand("test")
			cmd, rest, err := root.Find(args[1:])
			if err != nil || args[0] != root.Name() || cmd == root {
				t.Errorf("%s: %s: there is no command %q: %v", name, d.Name, args[:2], err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", name, d.Name, err)
			}
			for _, arg := range rest {
				flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				if f := cmd.Flags().Lookup(flag); f != nil && f.Hidden {
					t.Errorf("%s: %s: --%s has no effect, so the chart must not set it", name, d.Name, flag)
				}
			}
		}
	}
}

// A value that is accepted without effect corresponds to a flag without effect. If the flag gets an effect, the value must too.
func TestFlagsWithoutEffect(t *testing.T) {
	ignored := map[string]bool{}
	for _, v := range parse(t) {
		ignored[v.Path] = v.Ignored
	}
	for value, flag := range map[string]string{
		"global.crdWatcher": "crdWatcher", "features.dumpPatches": "dumpPatches", "features.blockLegacyPolicyAPIs": "blockLegacyPolicyAPIs", "features.deferredLoading": "enableDeferredLoading",
		"features.configMapCaching": "enableConfigMapCaching", "features.tuf": "enableTuf",
		"features.generateValidatingAdmissionPolicy": "generateValidatingAdmissionPolicy", "features.generateMutatingAdmissionPolicy": "generateMutatingAdmissionPolicy",
		"features.controllerRuntimeMetrics": "controllerRuntimeMetricsAddress", "features.admissionReports.backPressureThreshold": "maxAdmissionReports",
	} {
		cmd, _, err := app.NewControllerCommand("test").Find([]string{"admission"})
		if err != nil {
			t.Fatal(err)
		}
		f := cmd.Flags().Lookup(flag)
		if f == nil || f.Hidden != ignored[value] {
			t.Errorf("%s is marked as ignored: %v; --%s has no effect: %v", value, ignored[value], flag, f != nil && f.Hidden)
		}
	}
}

// The Pods satisfy the restricted level of the Pod Security Standards.
func TestPodSecurity(t *testing.T) {
	evaluator, err := pspolicy.NewEvaluator(pspolicy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
	deployments := decode[appsv1.Deployment](t, template(t), "Deployment")
	for _, d := range deployments {
		if r := pspolicy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec)); !r.Allowed {
			t.Errorf("%s: %s", d.Name, r.ForbiddenDetail())
		}
	}
	if len(deployments) == 0 {
		t.Error("there are no Deployments")
	}
}

// The claim of the store of decisions is writable for the user of the image, unless the values set another group. Pods without a claim have
// no group.
func TestStoreIsWritable(t *testing.T) {
	const claim = "--set=reportsController.decisions.enabled=true,reportsController.decisions.persistence.enabled=true"
	one, other := int64(65532), int64(1000)
	for _, c := range []struct {
		args []string
		want *int64
	}{
		{nil, nil},
		{[]string{"--set=reportsController.decisions.enabled=true"}, nil},
		{[]string{claim}, &one},
		{[]string{claim, "--set=reportsController.podSecurityContext.fsGroup=1000"}, &other},
		{[]string{claim, "--set=reportsController.decisions.persistence.fsGroup=null"}, nil},
	} {
		for _, d := range decode[appsv1.Deployment](t, template(t, c.args...), "Deployment") {
			var got *int64
			if security := d.Spec.Template.Spec.SecurityContext; security != nil {
				got = security.FSGroup
			}
			want := c.want
			if !strings.HasSuffix(d.Name, "reports-controller") {
				want = nil
			}
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("%q: %s has the group %v", c.args, d.Name, got)
			}
		}
	}
}

// Services select the Pods and name their ports. Referenced accounts, roles and ConfigMaps exist.
func TestReferences(t *testing.T) {
	for name, docs := range renders(t) {
		exists := map[string]bool{}
		for _, d := range docs {
			exists[d.Kind+" "+d.Name] = true
		}
		deployments := decode[appsv1.Deployment](t, docs, "Deployment")
		for _, d := range deployments {
			pod := d.Spec.Template.Spec
			if !exists["ServiceAccount "+pod.ServiceAccountName] && name != "testdata/rbac-off.yaml" {
				t.Errorf("%s: %s: there is no account %s", name, d.Name, pod.ServiceAccountName)
			}
			for key, value := range d.Spec.Selector.MatchLabels {
				if d.Spec.Template.Labels[key] != value {
					t.Errorf("%s: %s does not select its Pods", name, d.Name)
				}
			}
			service := ""
			for _, e := range pod.Containers[0].Env {
				if e.Name == "KYVERNO_SVC" || e.Name == "KYVERNO_DEPLOYMENT" && service == "" {
					service = e.Value // the process creates the certificate of its metrics for this name
				}
				if (e.Name == "INIT_CONFIG" || e.Name == "METRICS_CONFIG") && !exists["ConfigMap "+e.Value] {
					t.Errorf("%s: %s: there is no ConfigMap %s", name, d.Name, e.Value)
				}
				if e.Name == "KYVERNO_SVC" && !exists["Service "+e.Value] {
					t.Errorf("%s: %s: there is no Service %s", name, d.Name, e.Value)
				}
			}
			served := slices.ContainsFunc(pod.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics-port" })
			if served && name != "testdata/no-metrics.yaml" && !exists["Service "+service+"-metrics"] {
				t.Errorf("%s: %s: there is no Service %s-metrics", name, d.Name, service)
			}
		}
		for _, s := range decode[corev1.Service](t, docs, "Service") {
			if !slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool {
				for key, value := range s.Spec.Selector {
					if d.Spec.Template.Labels[key] != value {
						return false
					}
				}
				return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == s.Spec.Ports[0].TargetPort.String() })
			}) {
				t.Errorf("%s: no Pod is behind Service %s", name, s.Name)
			}
		}
		for _, b := range decode[rbacv1.ClusterRoleBinding](t, docs, "ClusterRoleBinding") {
			if !strings.HasSuffix(b.Name, ":view") && !exists["ClusterRole "+b.RoleRef.Name] {
				t.Errorf("%s: there is no ClusterRole %s", name, b.RoleRef.Name)
			}
		}
	}
}

// The shipped ConfigMap is valid, and excludes Ephor's own objects and those of the system.
func TestSettings(t *testing.T) {
	for name, docs := range renders(t) {
		for _, cm := range decode[corev1.ConfigMap](t, docs, "ConfigMap") {
			if cm.Labels["app.kubernetes.io/component"] != "config" || cm.Data["defaultRegistry"] == "" {
				continue
			}
			s, diags := settings.Parse(cm.Data)
			if len(diags) > 0 {
				t.Errorf("%s: %v", name, diags)
			}
			if name != "default" {
				continue
			}
			pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
			for ns, want := range map[string]bool{"kyverno": true, "kube-system": true, "default": false} {
				if got := s.Filtered(pod, "", ns, "x"); got != want {
					t.Errorf("a Pod in %s: filtered %v", ns, got)
				}
			}
			role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
			if !s.Filtered(role, "", "", "kyverno:admission-controller:core") || s.Filtered(role, "", "", "edit") {
				t.Error("our ClusterRoles, and only those, are to be left alone")
			}
			if out, err := s.Excluded("system:node:x", []string{"system:nodes"}, nil); !out || err != nil {
				t.Errorf("nodes are not excluded: %v %v", out, err)
			}
			if s.Webhook.NamespaceSelector == nil || len(s.Webhook.NamespaceSelector.MatchExpressions) != 2 || s.Webhook.Annotations["admissions.enforcer/disabled"] != "true" {
				t.Errorf("webhooks: %+v", s.Webhook)
			}
		}
	}
}
