package versions

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/pss"
	"ephor.invalid/ephor/internal/value"
)

// The verdicts of Pod Security equal those of the API server's own admission, for the latest standard and for each pinned version, on the Pods of
// the library's tests.
func TestPodSecurity(t *testing.T) {
	pods := corpus(t)
	own := server(t)
	versions := []string{"latest"}
	if whole() {
		for v := kubeversion.Minor(24); v <= own.Known(); v++ {
			versions = append(versions, "v"+v.String())
		}
	}
	every := 25
	if whole() {
		every = 3
	}
	prepare(t, "pss-none", "privileged", "latest")
	compared, denied := 0, 0
	for _, level := range []string{"baseline", "restricted"} {
		for _, version := range versions {
			standard, err := pss.New(level, version, own)
			if err != nil {
				t.Fatal(err)
			}
			namespace := "pss-" + level + "-" + strings.ReplaceAll(version, ".", "-")
			prepare(t, namespace, level, version)
			for i := compared % every; i < len(pods); i += every {
				compared++
				p := &pods[i]
				if p.admitted(t); p.decoded == nil {
					continue // this version of the API server does not accept such a Pod at all
				}
				err := create(t, p.pod, namespace, nil)
				refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "violates PodSecurity")
				if err != nil && !refused {
					t.Errorf("%s, %s %s: %v", p.file, level, version, err)
				}
				if refused {
					denied++
				}
				if ours, failed := standard.Check(p.decoded, nil); failed != nil || (len(ours) > 0) != refused {
					t.Errorf("%s, %s %s: %d violations, %v; the API server says %v", p.file, level, version, len(ours), failed, err)
				}
			}
		}
	}
	t.Logf("%d Pods compared for %d versions and 2 levels, %d refused", compared, len(versions), denied)
	if denied == 0 || denied == compared {
		t.Errorf("%d of %d Pods were refused", denied, compared)
	}
}

// prepare creates a namespace that enforces a standard.
func prepare(t *testing.T, name, level, version string) {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": version,
	}}}
	if _, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = kubectl(t, "", "delete", "namespace", name, "--wait=false") })
	eventually(t, func() error {
		_, err := cluster.Client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

type example struct {
	file    string
	pod     *corev1.Pod
	asked   bool
	decoded *pss.Pod // as admission sees it; nil if the API server does not accept the Pod
}

// admitted asks the API server for the Pod as admission sees it: with its defaults, and without fields that it does not know or whose feature is off.
func (e *example) admitted(t *testing.T) {
	t.Helper()
	if e.asked {
		return
	}
	e.asked = true
	var made corev1.Pod
	if create(t, e.pod, "pss-none", &made) != nil {
		return
	}
	made.Kind = "Pod"
	raw, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	object, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	if e.decoded, err = pss.Decode(object.(map[string]any), nil); err != nil {
		t.Fatal(e.file, err)
	}
}

// create sends a dry-run creation of a Pod. The answer goes to made, unless it is nil.
func create(t *testing.T, pod *corev1.Pod, namespace string, made *corev1.Pod) error {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Namespace, pod.ResourceVersion = namespace, ""
	answer, err := cluster.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if made != nil && err == nil {
		*made = *answer
	}
	return err
}

// corpus returns the Pods of the library's tests, each content once.
func corpus(t *testing.T) (out []example) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		t.Fatal("the library's folder is not known: ", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test", "testdata", "*", "v*", "*", "*.yaml"))
	if err != nil || len(files) < 1000 {
		t.Fatalf("%d Pods: %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(text)] {
			continue
		}
		seen[string(text)] = true
		var pod corev1.Pod
		if err := yaml.Unmarshal(text, &pod); err != nil {
			t.Fatal(err)
		}
		out = append(out, example{file: fmt.Sprint(filepath.Base(filepath.Dir(filepath.Dir(file))), "/", filepath.Base(file)), pod: &pod})
	}
	return out
}
