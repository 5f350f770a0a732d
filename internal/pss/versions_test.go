package pss_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	psapi "k8s.io/pod-security-admission/api"
	pspolicy "k8s.io/pod-security-admission/policy"

	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/pss"
)

// Every pinned version, and `latest` in an API server of every version, allows the pods that the API server's own admission allows at that version.
func TestVersions(t *testing.T) {
	root := corpus(t)
	var files []string
	for _, version := range []string{"v1.24", "v1.32", "v1.36", "v1.37"} {
		more, err := filepath.Glob(root + "/*/" + version + "/*/*.yaml")
		if err != nil || len(more) < 100 {
			t.Fatalf("%d pods of %s, %v", len(more), version, err)
		}
		files = append(files, more...)
	}
	type subject struct {
		pod   corev1.Pod
		ours  *pss.Pod
		about string
	}
	var subjects []subject
	for _, file := range files {
		object := asKind(t, file, "Pod")
		s := subject{about: strings.TrimPrefix(file, root)}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &s.pod); err != nil {
			t.Fatal(file, err)
		}
		var err error
		if s.ours, err = pss.Decode(object, nil); err != nil {
			t.Fatal(file, err)
		}
		subjects = append(subjects, s)
	}
	for _, level := range []string{pss.LevelBaseline, pss.LevelRestricted} {
		for minor := 19; minor <= int(kubeversion.Newest); minor++ {
			at := psapi.MajorMinorVersion(1, minor)
			emulated := at
			theirs, err := pspolicy.NewEvaluator(pspolicy.DefaultChecks(), &emulated)
			if err != nil {
				t.Fatal(err)
			}
			pinned, err := pss.New(level, at.String(), 0)
			if err != nil {
				t.Fatal(err)
			}
			latest, err := pss.New(level, "latest", kubeversion.Minor(minor))
			if err != nil {
				t.Fatal(err)
			}
			for i := range subjects {
				s := &subjects[i]
				want := !slices.ContainsFunc(theirs.EvaluatePod(psapi.LevelVersion{Level: psapi.Level(level), Version: psapi.LatestVersion()}, &s.pod.ObjectMeta, &s.pod.Spec),
					func(r pspolicy.CheckResult) bool { return !r.Allowed })
				if got := len(check(pinned, s.ours)) == 0; got != want {
					t.Errorf("%s:%s: %s: allowed %v, the API server says %v", level, at.String(), s.about, got, want)
				}
				if got := len(check(latest, s.ours)) == 0; got != want {
					t.Errorf("%s:latest of %s: %s: allowed %v, the API server says %v", level, at.String(), s.about, got, want)
				}
			}
		}
	}
}

// Changes lists the checks that differ between two versions of the API server.
func TestChanges(t *testing.T) {
	for _, c := range []struct {
		level    string
		from, to kubeversion.Minor
		want     string
	}{
		{pss.LevelBaseline, 36, 37, "sysctls"}, {pss.LevelBaseline, 37, 36, "sysctls"}, {pss.LevelRestricted, 35, 36, ""}, {pss.LevelBaseline, 37, 38, ""},
		{pss.LevelBaseline, 33, 34, "hostProbesAndHostLifecycle"},
	} {
		if got := strings.Join(pss.Changes(c.level, c.from, c.to), ","); got != c.want {
			t.Errorf("%s from %s to %s: %q, want %q", c.level, c.from, c.to, got, c.want)
		}
	}
	versions := pss.Versions()
	if !slices.Contains(versions, "v1.37") || slices.Contains(versions, "v1.38") {
		t.Errorf("%v", versions)
	}
}
