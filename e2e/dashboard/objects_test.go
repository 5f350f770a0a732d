package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
)

// namespaces creates namespaces for a test, and deletes them with their content afterwards.
func namespaces(t testing.TB, names ...string) {
	t.Helper()
	var objects []any
	for _, name := range names {
		objects = append(objects, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	}
	apply(t, objects...)
}

// apply applies objects for a test.
func apply(t testing.TB, objects ...any) {
	t.Helper()
	cluster.Apply(t, manifest(t, objects...))
}

func manifest(t testing.TB, objects ...any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newReport returns a report about one resource, as any producer may write it; without a namespace, about a cluster-scoped resource.
func newReport(namespace, kind, name string, results ...policyreport.Result) any {
	content := policyreport.ReportContent{
		Scope: &corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}, Results: results,
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: strings.ToLower(fmt.Sprintf("%s-%x", kind, name))}
	version := policyreport.GroupVersion.String()
	if namespace == "" {
		return &policyreport.ClusterPolicyReport{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "ClusterPolicyReport"}, ObjectMeta: meta, ReportContent: content}
	}
	return &policyreport.PolicyReport{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "PolicyReport"}, ObjectMeta: meta, ReportContent: content}
}

// result returns a result in Ephor's format.
func result(policy, rule, status, severity, message string) policyreport.Result {
	return policyreport.Result{
		Source: "kyverno", Policy: policy, Rule: rule, Result: policyreport.Status(status), Severity: policyreport.Severity(severity), Scored: true,
		Category: "Sample", Message: message, Properties: map[string]string{"process": "background scan"},
		Timestamp: metav1.Timestamp{Seconds: time.Now().Add(-40 * time.Minute).Unix()},
	}
}
