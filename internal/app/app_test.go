package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/intake"
)

func TestFlags(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	required := []string{"--caSecretName=a", "--tlsSecretName=b"}
	for _, c := range []struct {
		args []string
		env  map[string]string
		want string // part of the error; empty for none
	}{
		{args: required},
		{want: "--caSecretName and --tlsSecretName are required"},
		{args: append(required, "--tlsKeyAlgorithm=ed25519", "--v=4", "-v=4", "--loggingFormat=json", "--webhookTimeout=30")},
		{args: append(required, "--tlsKeyAlgorithm=DSA"), want: "use RSA, ECDSA or Ed25519"},
		{args: append(required, "--loggingFormat=xml"), want: "neither text nor json"},
		{args: append(required, "--webhookTimeout=31"), want: "within 1 and 30"},
		{args: append(required, "--leaderElectionRetryPeriod=0s"), want: "must be positive"},
		{args: append(required, "--enablePolicyException=false", "--exceptionNamespace=", "--protectManagedResources=false")},
		{args: append(required, "--enablePolicyException", "--exceptionNamespace=*")},
		{args: append(required, "--noSuchFlag"), want: "unknown flag"},
		{args: required, env: map[string]string{envForceIgnore: "maybe"}, want: envForceIgnore},
	} {
		f := &admissionFlags{}
		cmd := newAdmissionCommand()
		cmd.ResetFlags()
		f.register(cmd.Flags())
		err := cmd.Flags().Parse(c.args)
		if err == nil {
			lookup := none
			if c.env != nil {
				lookup = func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }
			}
			err = f.complete(cmd.Flags(), lookup)
		}
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// The lists for calls come from the flags, or else from the environment, and are validated at the start.
func TestCallFlags(t *testing.T) {
	for _, c := range []struct {
		args  []string
		env   map[string]string
		block []string
		want  string // part of the error; empty for none
	}{
		{nil, nil, apicall.DefaultBlocklist, ""},
		{nil, map[string]string{envBlocklist: "10.0.0.0/8,x.example"}, []string{"10.0.0.0/8", "x.example"}, ""},
		{[]string{"--httpBlocklist=a.example"}, map[string]string{envBlocklist: "10.0.0.0/8"}, []string{"a.example"}, ""},
		{nil, map[string]string{envAllowlist: "example.com"}, apicall.DefaultBlocklist, "invalid HTTP flag configuration: "},
		{[]string{"--httpBlocklist=10.0.0.0/99"}, nil, []string{"10.0.0.0/99"}, "invalid HTTP flag configuration: "},
		{[]string{"--serviceTokenFile=x"}, nil, apicall.DefaultBlocklist, "go together"},
		{[]string{"--serviceTokenHosts=x"}, nil, apicall.DefaultBlocklist, "go together"},
		{[]string{"--apiCallTimeout=-1s"}, nil, apicall.DefaultBlocklist, "must not be negative"},
	} {
		f := &callFlags{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.register(fs, admissionResponse)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		err := f.complete(fs, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) || !slices.Equal(f.blocklist, c.block) {
			t.Errorf("%+v: %v, %v", c, f.blocklist, err)
		}
	}
}

// Row S12 of docs/security/threat-model.md: the token for services is read for every call, and is never the token for the API server.
func TestS12ServiceToken(t *testing.T) {
	dir := t.TempDir()
	f := &callFlags{tokenFile: filepath.Join(dir, "projected")}
	before := apiToken
	apiToken = filepath.Join(dir, "own")
	defer func() { apiToken = before }()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.token(t.Context()); err == nil {
		t.Error("a missing file gives a token")
	}
	write("own", "api-token")
	for text, want := range map[string]string{"one\n": "one", "two": "two", "api-token\n": ""} {
		write("projected", text)
		if got, err := f.token(t.Context()); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	e := environment(func(k string) (string, bool) {
		v, ok := map[string]string{"KYVERNO_NAMESPACE": "ns", "KYVERNO_SVC": "", "KYVERNO_POD_NAME": "pod-1"}[k]
		return v, ok
	})
	if (e != env{namespace: "ns", service: "kyverno-svc", metricsService: "kyverno-svc-metrics", configMap: "kyverno", metricsConfig: "kyverno-metrics", podName: "pod-1", version: version}) {
		t.Errorf("%+v", e)
	}
	for _, c := range []struct{ service, deployment, want string }{
		{"own-svc", "own-admission-controller", "own-svc-metrics"},
		{"", "own-background-controller", "own-background-controller-metrics"},
	} {
		e := environment(func(k string) (string, bool) {
			v, ok := map[string]string{"KYVERNO_SVC": c.service, "KYVERNO_DEPLOYMENT": c.deployment}[k]
			return v, ok
		})
		if e.metricsService != c.want || e.deployment != c.deployment {
			t.Errorf("%+v: %+v", c, e)
		}
	}
}

func TestSubjectKeys(t *testing.T) {
	got := subjectKeys([]rbacv1.Subject{
		{Kind: "User", Name: "jane"}, {Kind: "Group", Name: "dev"}, {Kind: "ServiceAccount", Name: "bot", Namespace: "infra"},
		{Kind: "ServiceAccount", Name: "local"}, {Kind: "Robot", Name: "x"},
	}, "team")
	want := "user jane|group dev|user system:serviceaccount:infra:bot|user system:serviceaccount:team:local"
	if strings.Join(got, "|") != want {
		t.Errorf("%q", got)
	}
}

func TestTransforms(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "x"}}
	ns := intake.NamespaceObject()
	ns.ObjectMeta = metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, ManagedFields: managed, ResourceVersion: "1"}
	if _, err := onlyLabels(ns); err != nil || ns.Annotations != nil || ns.ManagedFields != nil || ns.Labels["a"] != "b" || ns.Name != "n" || ns.ResourceVersion != "1" {
		t.Errorf("%+v", ns)
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", ManagedFields: managed}}
	if _, err := stripManagedFields(s); err != nil || s.ManagedFields != nil {
		t.Errorf("%+v", s)
	}
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "n", Labels: map[string]string{"a": "b"}, ManagedFields: managed}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}}
	if _, err := onlySubjects(b); err != nil || b.Labels != nil || b.ManagedFields != nil || b.Namespace != "n" || len(b.Subjects) != 1 {
		t.Errorf("%+v", b)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "k"}
	for _, f := range []toolscache.TransformFunc{stripManagedFields, onlyLabels, onlySubjects} {
		if out, err := f(gone); err != nil || out != any(gone) {
			t.Errorf("a tombstone became %v, %v", out, err)
		}
	}
}
