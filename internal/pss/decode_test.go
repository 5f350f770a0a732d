package pss_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	psapi "k8s.io/pod-security-admission/api"
	pspolicy "k8s.io/pod-security-admission/policy"
	kjson "sigs.k8s.io/json"

	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/value"
)

// FuzzDecode compares our decoding with that of the API server: a valid object decodes in both, and the library gives both
// pods the same result.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"Pod","metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/a":"x"},"creationTimestamp":"2026-02-28T01:02:03Z"},"spec":{"hostPID":true}}`,
		`{"kind":"Pod","spec":{"containers":[null,{"name":"a","image":"b","ports":[{"hostPort":80}],"resources":{"limits":{"cpu":"1.5","memory":"1Gi","x":5,"y":"1e3"}}}]}}`,
		`{"kind":"Pod","spec":{"securityContext":{"runAsNonRoot":true,"runAsUser":0,"sysctls":[{"name":"a"}],"seccompProfile":{"type":"Unconfined"}},"volumes":[{"name":"a","hostPath":{"path":"/"}},{"emptyDir":{}}]}}`,
		`{"kind":"Pod","spec":{"containers":[{"securityContext":{"capabilities":{"add":[null,"A"],"drop":["ALL"]},"procMount":"x","windowsOptions":{"hostProcess":true},"seLinuxOptions":{"user":"a"}}}]}}`,
		`{"kind":"Pod","spec":{"ephemeralContainers":[{"livenessProbe":{"httpGet":{"host":"a","port":"b"}},"lifecycle":{"preStop":{"tcpSocket":{"host":"a","port":1}}}}]}}`,
		`{"kind":"Pod","spec":{"containers":[{"ports":[{"containerPort":80.5}],"env":[{"name":1}]}],"nodeSelector":{"a":1},"hostUsers":false,"os":{"name":"windows"}}}`,
		`{"kind":"Pod","metadata":{"creationTimestamp":"2026-02-31T01:02:03Z","labels":[]},"spec":{"activeDeadlineSeconds":1e3,"tolerations":{"a":1}}}`,
		`{"kind":"Pod","spec":{"volumes":[{"emptyDir":null},{"projected":{"sources":[{"secret":{"name":"a"}}],"defaultMode":4294967296}}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := value.DecodeJSON(raw)
		object, ok := v.(map[string]any)
		if err != nil || !ok || object["kind"] != "Pod" {
			return
		}
		canonical := value.AppendJSON(nil, object) // without duplicate keys
		var want corev1.Pod
		wantErr := kjson.UnmarshalCaseSensitivePreserveInts(canonical, &want)
		pod, err := pss.Decode(object, nil)
		if (err != nil) && wantErr == nil {
			// encoding/json ignores the case of field names, and so finds more type errors.
			return
		}
		if err == nil && wantErr != nil {
			t.Fatalf("decoded what is refused: %v", wantErr)
		}
		if err != nil {
			return
		}
		for _, c := range pspolicy.DefaultChecks() {
			for _, version := range c.Versions {
				a, b := version.CheckPod(&pod.Meta, &pod.Spec), version.CheckPod(&want.ObjectMeta, &want.Spec)
				if a != b {
					t.Fatalf("%s: %+v, of the whole pod %+v", c.ID, a, b)
				}
			}
		}
		standard, err := pss.New(string(psapi.LevelRestricted), "latest", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range check(standard, pod) {
			if len(v.Fields) == 0 || v.Text(pod) == "" {
				t.Fatalf("nothing to blame for %s", v.ID)
			}
		}
	})
}

func benchPod(b *testing.B) map[string]any {
	b.Helper()
	raw, err := os.ReadFile("../value/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		b.Fatal(err)
	}
	return v.(map[string]any)
}

func BenchmarkDecode(b *testing.B) {
	object := benchPod(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pss.Decode(object, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	pod, err := pss.Decode(benchPod(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, level := range []string{pss.LevelBaseline, pss.LevelRestricted} {
		standard, err := pss.New(level, "latest", 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(level, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check(standard, pod)
			}
		})
	}
}
