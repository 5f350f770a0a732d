package pss_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/value"
)

// decode decodes a pod whose spec is given as JSON.
func decode(t testing.TB, spec string) *pss.Pod {
	t.Helper()
	v, err := value.DecodeJSON([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":` + spec + `}`))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := pss.Decode(v.(map[string]any), nil)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// check returns the violations of a pod without a budget.
func check(standard *pss.Standard, pod *pss.Pod) []pss.Violation {
	found, err := standard.Check(pod, nil)
	if err != nil {
		panic(err)
	}
	return found
}

// violations returns the texts of the standard's violations.
func violations(t testing.TB, level, version string, pod *pss.Pod) string {
	t.Helper()
	standard, err := pss.New(level, version, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range check(standard, pod) {
		out = append(out, v.Text(pod))
	}
	return strings.Join(out, "\n")
}

// TestFields shows the fields that each control reports.
func TestFields(t *testing.T) {
	for _, c := range []struct{ name, level, version, spec, want string }{
		{"capabilities", "baseline", "latest", `{"containers":[{"securityContext":{"capabilities":{"add":["NET_RAW","CHOWN","BPF","BPF"]}}}]}`,
			"(Forbidden reason: non-default capabilities, field error list: [spec.containers[0].securityContext.capabilities.add is forbidden, forbidden values found: [BPF NET_RAW]])"},
		{"host ports", "baseline", "", `{"ephemeralContainers":[{"ports":[{"containerPort":1},{"hostPort":80}]}]}`,
			"(Forbidden reason: hostPort, field error list: [spec.ephemeralContainers[0].ports[1].hostPort is forbidden, forbidden values found: 80])"},
		{"proc mount", "baseline", "v1.30", `{"hostUsers":false,"containers":[{"securityContext":{"procMount":"Unmasked"}}]}`,
			"(Forbidden reason: procMount, field error list: [spec.containers[0].securityContext.procMount is forbidden, forbidden values found: Unmasked])"},
		{"proc mount in a user namespace", "baseline", "latest", `{"hostUsers":false,"containers":[{"securityContext":{"procMount":"Unmasked"}}]}`, ""},
		{"host namespaces", "baseline", "latest", `{"hostIPC":true,"hostPID":true,"hostNetwork":true}`,
			"(Forbidden reason: host namespaces, field error list: [spec.hostNetwork is forbidden, forbidden values found: true, spec.hostPID is forbidden, forbidden values found: true, spec.hostIPC is forbidden, forbidden values found: true])"},
		{"sysctls", "baseline", "v1.31", `{"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem","value":"1"},{"name":"kernel.shm_rmid_forced","value":"1"},{}]}}`,
			"(Forbidden reason: forbidden sysctls, field error list: [spec.securityContext.sysctls[0].name is forbidden, forbidden values found: net.ipv4.tcp_rmem, spec.securityContext.sysctls[2].name: Forbidden])"},
		{"a sysctl that came later", "baseline", "v1.32", `{"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem","value":"1"}]}}`, ""},
		{"hostProcess", "baseline", "latest", `{"securityContext":{"windowsOptions":{"hostProcess":true}},"initContainers":[{"securityContext":{"windowsOptions":{"hostProcess":true}}}]}`,
			"(Forbidden reason: hostProcess, field error list: [spec.initContainers[0].securityContext.windowsOptions.hostProcess is forbidden, forbidden values found: true, spec.securityContext.windowsOptions.hostProcess is forbidden, forbidden values found: true])"},
		{"SELinux", "baseline", "v1.30", `{"securityContext":{"seLinuxOptions":{"type":"container_engine_t"}},"containers":[{"securityContext":{"seLinuxOptions":{"user":"u","role":"r","type":"container_t"}}}]}`,
			"(Forbidden reason: seLinuxOptions, field error list: [spec.securityContext.seLinuxOptions.type is forbidden, forbidden values found: container_engine_t, spec.containers[0].securityContext.seLinuxOptions.user is forbidden, forbidden values found: u, spec.containers[0].securityContext.seLinuxOptions.role is forbidden, forbidden values found: r])"},
		{"AppArmor", "baseline", "latest", `{"securityContext":{"appArmorProfile":{"type":"Unconfined"}},"containers":[{"securityContext":{"appArmorProfile":{"type":"Other"}}}]}`,
			"(Forbidden reason: forbidden AppArmor profiles, field error list: [spec.securityContext.appArmorProfile.type is forbidden, forbidden values found: Unconfined, spec.containers[0].securityContext.appArmorProfile.type is forbidden, forbidden values found: Other])"},
		{"probes", "baseline", "latest", `{"containers":[{"livenessProbe":{"httpGet":{"host":"a","port":1}},"startupProbe":{"tcpSocket":{"host":"b","port":"c"}},"lifecycle":{"preStop":{"httpGet":{"host":"c","port":1}}}}]}`,
			"(Forbidden reason: probe or lifecycle host, field error list: [spec.containers[0].livenessProbe.httpGet.host is forbidden, forbidden values found: a, spec.containers[0].startupProbe.tcpSocket.host is forbidden, forbidden values found: b, spec.containers[0].lifecycle.preStop.httpGet.host is forbidden, forbidden values found: c])"},
		{"probes before", "baseline", "v1.32", `{"containers":[{"livenessProbe":{"httpGet":{"host":"a","port":1}}}]}`, ""},
		{"user", "restricted", "latest", `{"securityContext":{"runAsUser":0,"runAsNonRoot":true},"containers":[]}`,
			"(Forbidden reason: runAsUser=0, field error list: [spec.securityContext.runAsUser is forbidden, forbidden values found: 0])"},
		{"user before", "restricted", "v1.22", `{"securityContext":{"runAsUser":0,"runAsNonRoot":true},"containers":[]}`, ""},
		{"Windows", "restricted", "v1.25", `{"os":{"name":"windows"},"securityContext":{"runAsNonRoot":true},"containers":[{}]}`, ""},
		{"proc mount is one violation on both levels", "restricted", "latest", `{"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"Localhost"}},"containers":[{"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"procMount":"Unmasked"}}]}`,
			"(Forbidden reason: procMount, field error list: [spec.containers[0].securityContext.procMount is forbidden, forbidden values found: Unmasked])"},
	} {
		if got := violations(t, c.level, c.version, decode(t, c.spec)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestEveryVersion creates the standard of every version; an unknown check of the library would be an error.
func TestEveryVersion(t *testing.T) {
	for _, level := range append(pss.Levels(), "") {
		for _, version := range append(pss.Versions(), "", "v1.0", "v1.36", "v1.99") {
			if _, err := pss.New(level, version, 0); err != nil {
				t.Errorf("%s:%s: %v", level, version, err)
			}
		}
	}
	for _, version := range []string{"1.25", "v2.0", "newest", "v1.-1", "v1.99999999999999999999"} {
		if _, err := pss.New(pss.LevelBaseline, version, 0); err == nil {
			t.Errorf("%s is a version", version)
		}
	}
}

// TestVolumeSources decodes a volume with each source of Kubernetes: one that the decoder does not know would seem to be
// missing.
func TestVolumeSources(t *testing.T) {
	for f := range reflect.TypeFor[corev1.VolumeSource]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		pod := decode(t, `{"volumes":[{"name":"v","`+name+`":{}}]}`)
		if reflect.ValueOf(pod.Spec.Volumes[0].VolumeSource).FieldByIndex(f.Index).IsNil() {
			t.Errorf("%s is not decoded", name)
		}
		if got := violations(t, "restricted", "latest", pod); got != "" && !strings.Contains(got, "spec.volumes[0]."+name) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestControls compares the controls with the documentation.
func TestControls(t *testing.T) {
	for _, c := range pss.Controls() {
		if !strings.HasSuffix(c.Doc, ".") || len(c.Fields) == 0 {
			t.Errorf("%v: %q", c.IDs, c.Doc)
		}
	}
}

// TestBombs decodes and checks pods that are small as text but large as Go values, or have large violations.
func TestBombs(t *testing.T) {
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	for name, spec := range map[string]string{
		"containers": `{"containers":[` + many(200_000, "{}") + `]}`,
		"volumes":    `{"volumes":[` + many(200_000, "{}") + `]}`,
		"sysctls":    `{"securityContext":{"sysctls":[` + many(200_000, "{}") + `]}}`,
		"env":        `{"containers":[{"env":[` + many(200_000, "{}") + `]}]}`,
	} {
		v, err := value.DecodeJSON([]byte(`{"kind":"Pod","metadata":{},"spec":` + spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		meter := budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
		if _, err = pss.Decode(v.(map[string]any), meter); !errors.Is(err, budget.ErrExhausted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	v, _ := value.DecodeJSON([]byte(`{"kind":"Pod","spec":{"containers":[` + many(2000, "{}") + `]}}`))
	if _, err := pss.Decode(v.(map[string]any), budget.New(cancelled, budget.DefaultSteps, budget.DefaultBytes)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestManyCapabilities tests that capabilities are not compared with each other: those of this container would take ten seconds.
func TestManyCapabilities(t *testing.T) {
	set := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	for i := range 100_000 {
		set.Add = append(set.Add, corev1.Capability(fmt.Sprintf("X%06d", i)), "X000007")
	}
	pod := &pss.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{SecurityContext: &corev1.SecurityContext{Capabilities: set}}}}}
	s, err := pss.New("baseline", "latest", 0)
	if err != nil {
		t.Fatal(err)
	}
	found := check(s, pod)
	if len(found) != 1 || len(found[0].Fields) != 1 || len(found[0].Fields[0].Value.([]string)) != 100_000 {
		t.Errorf("%d violations", len(found))
	}
}

// TestBudget tests that violations and exclusions use up the budget: without it, each of these took half a second and 600 MB.
func TestBudget(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+format, i)
		}
		return b.String()[1:]
	}
	containers := `{"containers":[` + many(5000, `{"name":"c%d","image":"nginx","securityContext":{"allowPrivilegeEscalation":true}}`) + `]}`
	fields := make([]kyvernov1.PodSecurityStandard, 200)
	for i := range fields {
		fields[i] = kyvernov1.PodSecurityStandard{ControlName: "Privilege Escalation", Images: []string{"n*"}, Values: []string{"x*"},
			RestrictedField: "spec.containers[*].securityContext.allowPrivilegeEscalation"}
	}
	images := []kyvernov1.PodSecurityStandard{{ControlName: "Capabilities", Images: strings.Split(many(2000, "*n*x%d"), ",")}}
	for name, c := range map[string]struct {
		spec    string
		exclude []kyvernov1.PodSecurityStandard
		over    bool
	}{
		"many containers":     {spec: containers},
		"many capabilities":   {spec: `{"containers":[{"securityContext":{"capabilities":{"add":[` + many(20_000, `"X%d"`) + `]}}}]}`, over: true},
		"many sysctls":        {spec: `{"securityContext":{"sysctls":[` + many(20_000, `{"name":"x%d"}`) + `]}}`, over: true},
		"many excluded":       {spec: containers, exclude: fields, over: true},
		"many images":         {spec: containers, exclude: images, over: true},
		"a few are excluded":  {spec: containers, exclude: fields[:1]},
		"a few images are so": {spec: containers, exclude: []kyvernov1.PodSecurityStandard{{ControlName: "Capabilities", Images: []string{"n*"}}}},
	} {
		meter := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes)
		standard, err := pss.New("restricted", "latest", 0)
		if err != nil {
			t.Fatal(err)
		}
		exclude, diags := pss.CompileExclusions(c.exclude, "restricted", "x")
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		pod := decode(t, c.spec)
		found, err := standard.Check(pod, meter)
		if err == nil {
			found, err = standard.Except(pod, meter, found, exclude)
		}
		if over := errors.Is(err, budget.ErrExhausted); over != c.over || !over && len(found) == 0 {
			t.Errorf("%s: %d violations, %v", name, len(found), err)
		}
	}
}

// TestExclusionOfAnnotations tests that keys of annotations may have wildcards, in quotes or not.
func TestExclusionOfAnnotations(t *testing.T) {
	v, err := value.DecodeJSON([]byte(`{"kind":"Pod","metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}},"spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := pss.Decode(v.(map[string]any), nil)
	if err != nil {
		t.Fatal(err)
	}
	standard, err := pss.New("baseline", "latest", 0)
	if err != nil {
		t.Fatal(err)
	}
	for field, exempt := range map[string]bool{
		`metadata.annotations["container.apparmor.security.beta.kubernetes.io/*"]`: true,
		`metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]`:   true,
		`metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]`:   false,
		`spec.securityContext.appArmorProfile.type`:                                false,
	} {
		list, diags := pss.CompileExclusions([]kyvernov1.PodSecurityStandard{
			{ControlName: "AppArmor", RestrictedField: field, Values: []string{"unconfined"}}}, "baseline", "x")
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		if rest, _ := standard.Except(pod, nil, check(standard, pod), list); (len(rest) == 0) != exempt {
			t.Errorf("%s: %v", field, rest)
		}
	}
}
