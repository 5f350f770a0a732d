package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/intake"
)

// settingsOf returns the settings of a process, and its flags.
func settingsOf(process string) (*flags, *pflag.FlagSet) {
	f, fs := &flags{process: process}, pflag.NewFlagSet(process, pflag.ContinueOnError)
	f.register(fs)
	return f, fs
}

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
		f, fs := settingsOf(nameAdmission)
		err := fs.Parse(c.args)
		if err == nil {
			lookup := none
			if c.env != nil {
				lookup = func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }
			}
			err = f.complete(fs, lookup)
		}
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
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

func TestTransforms(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "x"}}
	ns := intake.NamespaceObject()
	ns.ObjectMeta = metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, ManagedFields: managed, ResourceVersion: "1"}
	if _, err := onlyLabels(ns); err != nil || ns.Annotations != nil || ns.ManagedFields != nil || ns.Labels["a"] != "b" || ns.Name != "n" || ns.ResourceVersion != "1" {
		t.Errorf("%+v", ns)
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", ManagedFields: managed}}
	if _, err := (&status.ExceptionFlags{}).Transform(s); err != nil || s.ManagedFields != nil {
		t.Errorf("%+v", s)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "k"}
	for _, f := range []toolscache.TransformFunc{(&status.ExceptionFlags{}).Transform, onlyLabels} {
		if out, err := f(gone); err != nil || out != any(gone) {
			t.Errorf("a tombstone became %v, %v", out, err)
		}
	}
}
