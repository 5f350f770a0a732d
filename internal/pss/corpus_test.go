package pss_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/value"
)

// TestS20 runs the pods of the library's own test data (S20 in docs/security/threat-model.md): every version, both levels, in
// each form in which a pod can reach us. A pod that the library forbids is forbidden with at least one field, and the others
// are allowed.
func TestS20(t *testing.T) {
	root := corpus(t)
	files, err := filepath.Glob(root + "/*/v*/*/*.yaml")
	if err != nil || len(files) < 4000 {
		t.Fatalf("%d pods in %s, %v", len(files), root, err)
	}
	for _, file := range files {
		parts := strings.Split(strings.TrimPrefix(file, root+string(filepath.Separator)), string(filepath.Separator))
		level, version, verdict := parts[0], parts[1], parts[2]
		standard, err := pss.New(level, version, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"Pod", "Deployment", "CronJob"} {
			pod, err := pss.Decode(asKind(t, file, kind), nil)
			if err != nil {
				t.Fatal(file, kind, err)
			}
			violations := check(standard, pod)
			if (len(violations) == 0) != (verdict == "pass") {
				t.Errorf("%s as %s: %d violations", file, kind, len(violations))
			}
			for _, v := range violations {
				if len(v.Fields) == 0 || v.Reason == "" {
					t.Errorf("%s as %s: nothing to blame for %s", file, kind, v.ID)
				}
				if path := strings.TrimPrefix(v.Fields[0].Text(pod), "spec."); kind != "Pod" && !strings.Contains(path, "template.") {
					t.Errorf("%s as %s: %s", file, kind, v.Fields[0].Text(pod))
				}
			}
		}
	}
}

// corpus returns the folder of the library's test data.
func corpus(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal("the library's folder is not known: ", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "test", "testdata")
}

// asKind reads a pod and wraps it in a controller.
func asKind(t *testing.T, file, kind string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	pod := v.(map[string]any)
	// The API server turns a volume without a source into an emptyDir before admission.
	volumes, _ := pod["spec"].(map[string]any)["volumes"].([]any)
	for _, v := range volumes {
		if volume := v.(map[string]any); len(volume) == 1 {
			volume["emptyDir"] = map[string]any{}
		}
	}
	template := map[string]any{"metadata": pod["metadata"], "spec": pod["spec"]}
	switch kind {
	case "Deployment":
		return map[string]any{"kind": kind, "spec": map[string]any{"template": template}}
	case "CronJob":
		job := map[string]any{"spec": map[string]any{"template": template}}
		return map[string]any{"kind": kind, "spec": map[string]any{"jobTemplate": job}}
	}
	return pod
}
