package pattern

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// benchPod returns a Pod of about 7 kB as JSON, as in an admission review of an ordinary Pod.
func benchPod(privileged bool) map[string]any {
	containers := make([]any, 4)
	for i := range containers {
		env := make([]any, 12)
		for j := range env {
			env[j] = map[string]any{"name": fmt.Sprintf("SETTING_%d", j), "value": fmt.Sprintf("value of setting %d of container %d", j, i)}
		}
		containers[i] = map[string]any{
			"name":            fmt.Sprintf("c%d", i),
			"image":           fmt.Sprintf("registry.example.com/team/app-%d:1.2.3", i),
			"imagePullPolicy": "IfNotPresent",
			"env":             env,
			"ports":           []any{map[string]any{"containerPort": int64(8080 + i), "protocol": "TCP"}},
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "100m", "memory": "128Mi"},
				"limits":   map[string]any{"memory": "256Mi"},
			},
			"securityContext": map[string]any{
				"privileged": privileged && i == 3, "allowPrivilegeEscalation": false, "runAsNonRoot": true,
				"capabilities": map[string]any{"drop": []any{"ALL"}},
			},
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name": "web", "namespace": "default",
			"labels":      map[string]any{"app": "web", "team": "a"},
			"annotations": map[string]any{"container.apparmor.security.beta.kubernetes.io/c0": "runtime/default", "note": "x"},
		},
		"spec": map[string]any{
			"containers":      containers,
			"volumes":         []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
			"securityContext": map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		},
	}
}

func securityPatterns() map[string]any {
	containers := func(p map[string]any) map[string]any {
		return map[string]any{"spec": map[string]any{
			"=(ephemeralContainers)": []any{p}, "=(initContainers)": []any{p}, "containers": []any{p},
		}}
	}
	return map[string]any{
		"privileged": containers(map[string]any{"=(securityContext)": map[string]any{"=(privileged)": "false"}}),
		"escalation": containers(map[string]any{"securityContext": map[string]any{"allowPrivilegeEscalation": false}}),
		"ports":      containers(map[string]any{"=(ports)": []any{map[string]any{"=(hostPort)": int64(0)}}}),
		"resources":  containers(map[string]any{"resources": map[string]any{"requests": map[string]any{"memory": "?*", "cpu": "<=1"}, "limits": map[string]any{"memory": "1Mi-1Gi"}}}),
		"condition":  containers(map[string]any{"(image)": "registry.example.com/*", "imagePullPolicy": "Always | IfNotPresent"}),
		"apparmor": map[string]any{"=(metadata)": map[string]any{"=(annotations)": map[string]any{
			"=(container.apparmor.security.beta.kubernetes.io/*)": "runtime/default | localhost/*"}}},
		"namespaces": map[string]any{"spec": map[string]any{"=(hostPID)": "false", "=(hostIPC)": "false", "=(hostNetwork)": "false"}},
		"volumes":    map[string]any{"spec": map[string]any{"=(volumes)": []any{map[string]any{"X(hostPath)": "null"}}}},
	}
}

// TestPassAllocatesNothing tests that evaluating a matching resource allocates nothing.
func TestPassAllocatesNothing(t *testing.T) {
	pod := benchPod(false)
	for name, raw := range securityPatterns() {
		p, diags := Compile(raw, "pattern", nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		allocs := testing.AllocsPerRun(100, func() {
			if v, err := p.Match(nil, nil, pod); v.Status != Pass || err != nil {
				t.Errorf("%s: %v %v", name, v, err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func BenchmarkPass(b *testing.B) {
	pod := benchPod(false)
	for _, name := range slices.Sorted(maps.Keys(securityPatterns())) {
		b.Run(name, func(b *testing.B) {
			p, _ := Compile(securityPatterns()[name], "pattern", nil)
			b.ReportAllocs()
			for b.Loop() {
				if v, err := p.Match(nil, nil, pod); v.Status != Pass || err != nil {
					b.Fatal(v, err)
				}
			}
		})
	}
}

func anyNonRoot(b testing.TB) *Alternatives {
	b.Helper()
	raw := []any{
		map[string]any{"spec": map[string]any{"securityContext": map[string]any{"runAsUser": ">0"}}},
		map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"securityContext": map[string]any{"runAsNonRoot": true}}}}},
	}
	a, diags := CompileAlternatives(raw, "anyPattern", nil)
	if diags.HasErrors() {
		b.Fatal(diags)
	}
	return a
}

func TestAlternativesAllocateNothing(t *testing.T) {
	a, pod := anyNonRoot(t), benchPod(false)
	allocs := testing.AllocsPerRun(100, func() {
		if c, err := a.Match(nil, nil, pod); c.Passed != 1 || err != nil {
			t.Error(c, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkAlternatives(b *testing.B) {
	a, pod := anyNonRoot(b), benchPod(false)
	b.ReportAllocs()
	for b.Loop() {
		if c, err := a.Match(nil, nil, pod); c.Passed != 1 || err != nil {
			b.Fatal(c, err)
		}
	}
}

func BenchmarkFail(b *testing.B) {
	pod := benchPod(true)
	p, _ := Compile(securityPatterns()["privileged"], "pattern", nil)
	b.ReportAllocs()
	for b.Loop() {
		if v, err := p.Match(nil, nil, pod); v.Status != Fail || err != nil {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	raw := securityPatterns()["resources"]
	b.ReportAllocs()
	for b.Loop() {
		Compile(raw, "pattern", nil)
	}
}
