package quickstart

import (
	"context"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"ephor.invalid/ephor/internal/devcluster"
)

// page is the quick start, from the root of the repository.
const page = "docs/start/quick-start.md"

// most is the maximum number of commands until a Pod is denied.
const most = 5

// machine is a development control plane with the shell of a user: kubectl, helm, make, a registry.
type machine struct {
	*devcluster.Cluster
	root, registry string
	env            []string
}

// newMachine starts a control plane, a registry and a shell.
func newMachine(t *testing.T) *machine {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		t.Skipf("Services of the chart listen on port 443: %v", err)
	}
	l.Close()
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(root, "hack", "helm.sh")).CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v\n%s", err, out)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	m := &machine{Cluster: devcluster.StartT(t), root: root, registry: server.Listener.Addr().String()}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\nexec "+m.KubectlPath()+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "bin", "tools", "helm"), filepath.Join(bin, "helm")); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	m.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+m.Kubeconfig, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home,
		"PLATFORMS=linux/"+runtime.GOARCH, "MAKELEVEL=", "MAKEFLAGS=") // so that make does not print its folder, as it does when another make calls it
	return m
}

// run runs a command of the page, with the registry of the test.
func (m *machine) run(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(command, "registry.example.com", m.registry))
	cmd.Dir, cmd.Env = m.root, m.env
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), m.registry, "registry.example.com"), err
}

// The commands of the quick start do what the page says and print what it shows, and after at most five of them a Pod is denied. Only the
// name of the registry, which readers have to replace, and the platforms of the image differ.
func TestQuickStart(t *testing.T) {
	m := newMachine(t)
	text, err := os.ReadFile(filepath.Join(m.root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*devcluster.Patience())
	defer cancel()
	n := &node{cluster: m.Cluster, namespace: "kyverno", dir: t.TempDir()}
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx, 4) }()

	refused := 0
	commands := commandsOf(string(text))
	for i, c := range commands {
		var out string
		for deadline := time.Now().Add(devcluster.Patience()); ; time.Sleep(time.Second) {
			out, err = m.run(ctx, c.command)
			// Reports are written a few seconds later.
			if !strings.HasPrefix(c.command, "kubectl get ") || strings.Contains(out, "Pod") || time.Now().After(deadline) {
				break
			}
		}
		t.Logf("$ %s\n%s", c.command, out)
		select {
		case err := <-ended:
			t.Fatalf("the programs of the Deployments: %v", err)
		default:
		}
		if !shows(out, c.shows) {
			t.Fatalf("$ %s\nthe page shows\n%s", c.command, c.shows)
		}
		denied := strings.Contains(out, "denied the request")
		if (err != nil) != denied {
			t.Fatalf("$ %s: %v", c.command, err)
		}
		if denied && refused == 0 {
			refused = i + 1
		}
	}
	if refused == 0 || refused > most {
		t.Errorf("a Pod was refused by command %d, want at most %d", refused, most)
	}
	for _, image := range n.found() {
		if image != m.registry+"/ephor:0.1.0" {
			t.Errorf("a Deployment has the image %s", image)
		}
	}
	t.Logf("a Pod is refused by command %d", refused)
}

// command is a command of the page with the output that the page shows.
type command struct{ command, shows string }

var block = regexp.MustCompile("(?ms)^```console by=e2e/quickstart\n(.*?)^```$")

func commandsOf(text string) (out []command) {
	for _, m := range block.FindAllStringSubmatch(text, -1) {
		for _, part := range strings.Split("\n"+m[1], "\n$ ")[1:] {
			c, shows, _ := strings.Cut(part, "\n")
			out = append(out, command{c, strings.TrimRight(shows, "\n")})
		}
	}
	return out
}

// shows reports whether a text contains the lines that a page shows, in their order. A line "…" stands for any lines, and … in a line for
// any text.
func shows(got, want string) bool {
	var expression strings.Builder
	expression.WriteString(`\A`)
	for _, line := range strings.Split(want, "\n") {
		if line == "…" {
			expression.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		expression.WriteString(strings.Join(parts, ".*") + ` *\n`)
	}
	expression.WriteString(`\z`)
	return regexp.MustCompile(expression.String()).MatchString(strings.TrimRight(got, "\n") + "\n")
}

func TestShows(t *testing.T) {
	for _, c := range []struct {
		got, want string
		ok        bool
	}{
		{"a\nb\n", "a\nb", true}, {"a\nb\nc\n", "a\n…\nc", true}, {"a\nb\n", "a", false}, {"a b c\n", "a…c", true}, {"x\na\n", "a", false},
		{"a\n", "…\na\n…", true}, {"denied: \nb\n", "denied: \nb", true},
	} {
		if got := shows(c.got, c.want); got != c.ok {
			t.Errorf("%q shows %q: %t", c.got, c.want, got)
		}
	}
}
