package quickstart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/devcluster"
)

var (
	// pushed matches a line of the release program: a pushed artifact with its digest.
	pushed     = regexp.MustCompile(`(?m)^(\S+)@(sha256:[0-9a-f]{64})$`)
	appVersion = regexp.MustCompile(`(?m)^appVersion: *(\S+)$`)
)

// A release is pushed to a registry, and image and chart are pulled by digest: `helm install oci://` installs the chart, and the program of
// the image denies a Pod. The release is built with `make release` for this machine's platform; EPHOR_RELEASE and VERSION name another one.
func TestRelease(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*devcluster.Patience())
	defer cancel()
	folder, version := os.Getenv("EPHOR_RELEASE"), os.Getenv("VERSION")
	values, out := "", ""
	if folder == "" {
		chart, err := os.ReadFile(filepath.Join(m.root, "charts", "ephor", "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		// With the version of the quick start, both tests link the program once.
		version = appVersion.FindStringSubmatch(string(chart))[1]
		out = m.must(t, ctx, "make release VERSION="+version+" PUSH=registry.example.com/team OUT="+t.TempDir()+"/release")
	} else {
		tool := filepath.Join(t.TempDir(), "release")
		if out, err := exec.Command("go", "build", "-C", filepath.Join(m.root, "hack", "tools", "release"), "-o", tool, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out = m.must(t, ctx, tool+" push -to registry.example.com/team -version "+version+" "+folder)
		values = "image.registry=registry.example.com/team,"
	}
	digests := map[string]string{} // by the name after the registry
	for _, name := range pushed.FindAllStringSubmatch(out, -1) {
		_, path, _ := strings.Cut(name[1], "/")
		digests[path] = name[2]
	}
	image, chart := digests["team/ephor:"+version], digests["team/charts/ephor:"+version]
	if len(digests) != 3 || image == "" || chart == "" || digests["team/charts/ephor-policies:"+version] == "" {
		t.Fatalf("the names of image and charts:\n%s", out)
	}

	n := &node{cluster: m.Cluster, namespace: "kyverno", dir: t.TempDir()}
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx, 4) }()
	m.must(t, ctx, "helm install kyverno oci://registry.example.com/team/charts/ephor@"+chart+" --plain-http --namespace kyverno --create-namespace --set "+values+
		"image.digest="+image+" --wait")
	m.must(t, ctx, "kubectl apply -f examples/library/disallow-latest-tag/policy.yaml")
	m.must(t, ctx, "kubectl wait --for=condition=Ready clusterpolicy/disallow-latest-tag --timeout=60s")
	select {
	case err := <-ended:
		t.Fatalf("the programs of the Deployments: %v", err)
	default:
	}
	if out, err := m.run(ctx, "kubectl run web --image=nginx:latest"); err == nil || !strings.Contains(out, "denied the request") || !strings.Contains(out, "disallow-latest-tag") {
		t.Errorf("the Pod: %v\n%s", err, out)
	}
	m.must(t, ctx, "kubectl run web --image=nginx:1.29")
	for _, name := range n.found() {
		if name != m.registry+"/team/ephor@"+image {
			t.Errorf("a Deployment has the image %s", name)
		}
	}
	said, err := exec.CommandContext(ctx, filepath.Join(n.dir, "ephor"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "Version: "+version+"\n") {
		t.Errorf("the program of the image for %s: %v\n%s", runtime.GOARCH, err, said)
	}
}

// must runs a command, which has to succeed.
func (m *machine) must(t *testing.T, ctx context.Context, command string) string {
	t.Helper()
	out, err := m.run(ctx, command)
	if err != nil {
		t.Fatalf("$ %s\n%v\n%s", command, err, out)
	}
	t.Logf("$ %s\n%s", command, out)
	return out
}
