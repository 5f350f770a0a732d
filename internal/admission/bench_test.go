package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/decision"
)

// podReview returns a review of about 7 kB: a Pod with three containers, as a controller would create it.
func podReview(privileged bool) []byte {
	container := func(i int) string {
		var env, mounts []string
		for k := range 8 {
			env = append(env, fmt.Sprintf(`{"name":"SETTING_%d","value":"value of the setting %d of container %d"}`, k, k, i))
			mounts = append(mounts, fmt.Sprintf(`{"name":"volume-%d","mountPath":"/var/lib/application/%d","readOnly":true}`, k, k))
		}
		return fmt.Sprintf(`{"name":"c%d","image":"registry.example.com/team/application-%d:1.2.%d","env":[%s],"volumeMounts":[%s],"ports":[{"containerPort":%d,"protocol":"TCP"}],`+
			`"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"1","memory":"512Mi"}},"livenessProbe":{"httpGet":{"path":"/healthz","port":%d},"periodSeconds":10},`+
			`"securityContext":{"privileged":%t,"runAsNonRoot":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}}`,
			i, i, i, strings.Join(env, ","), strings.Join(mounts, ","), 8080+i, 8080+i, privileged)
	}
	var volumes []string
	for k := range 8 {
		volumes = append(volumes, fmt.Sprintf(`{"name":"volume-%d","configMap":{"name":"settings-%d","defaultMode":420}}`, k, k))
	}
	r := typedReview()
	q := r.Request
	q.Kind.Group, q.Kind.Kind, q.Resource.Group, q.Resource.Resource, q.SubResource = "", "Pod", "", "pods", ""
	q.Operation, q.OldObject = admissionv1.Create, runtime.RawExtension{}
	q.Object.Raw = []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}},"spec":{`+
		`"securityContext":{"runAsNonRoot":true,"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[%s,%s,%s],"volumes":[%s]}}`,
		container(0), container(1), container(2), strings.Join(volumes, ",")))
	off := false
	q.DryRun = &off
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return b
}

// podSecurity returns our own 18 policies, enforced, from a folder of the examples.
func podSecurity(t testing.TB, folder string) []string {
	files, err := filepath.Glob("../../examples/" + folder + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies in examples/%s: %v", folder, err)
	}
	var texts []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	return texts
}

// BenchmarkPodSecurity measures the whole handler without TLS and HTTP: the 18 policies on a Pod of 7 kB.
func BenchmarkPodSecurity(b *testing.B) {
	benchmarkPods(b, "/validate/fail", podSecurity(b, "pod-security"))
}

// BenchmarkPodSecurityCEL is BenchmarkPodSecurity with the same policies as ValidatingPolicies.
func BenchmarkPodSecurityCEL(b *testing.B) {
	texts, path := podSecurity(b, "pod-security-cel"), "/vpol"
	for _, text := range texts {
		var object struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			b.Fatal(err)
		}
		path += "/" + object.Metadata.Name
	}
	benchmarkPods(b, path, texts)
}

// BenchmarkPodSecurityRecorded is BenchmarkPodSecurity with decisions recorded at the default share; the records are created and
// encoded concurrently.
func BenchmarkPodSecurityRecorded(b *testing.B) {
	feed := decision.NewFeed(decision.Options{
		Store: decision.NewLines(io.Discard), Keep: decision.Keep{Share: 0.01}, Capacity: 1000, Observer: uncounted{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go feed.Run(ctx)
	benchmarkPods(b, "/validate/fail", podSecurity(b, "pod-security"), func(s *Server) { s.Record = feed.Put })
}

type uncounted struct{}

func (uncounted) DecisionKept(string)  {}
func (uncounted) DecisionsDropped(int) {}

func benchmarkPods(b *testing.B, path string, policies []string, with ...func(*Server)) {
	for _, privileged := range []bool{false, true} {
		name := map[bool]string{false: "good", true: "bad"}[privileged]
		b.Run(name, func(b *testing.B) {
			srv, _ := setup(b, fakeCluster{}, map[string]string{"resourceFilters": "[Event,*,*] [*/*,kube-system,*]"}, policies...)
			for _, set := range with {
				set(srv)
			}
			body := podReview(privileged)
			if _, res := postReview(b, srv, path, body); res.Allowed == privileged {
				b.Fatalf("%+v", res)
			}
			r := httptest.NewRequest(http.MethodPost, path+"?timeout=10s", nil)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = int64(len(body))
			var reader bytes.Reader
			r.Body = struct {
				*bytes.Reader
				nopCloser
			}{&reader, nopCloser{}}
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				reader.Reset(body)
				srv.ServeHTTP(w, r)
			}
			if w.code != 0 {
				b.Fatal(w.code)
			}
		})
	}
}
