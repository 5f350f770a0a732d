package cli

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const rootlessPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: rootless, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  rules:
  - name: user
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: "images must name a user"
      foreach:
      - list: request.object.spec.containers
        context: [{name: image, imageRegistry: {reference: "{{ element.image }}"}}]
        deny: {conditions: {all: [{key: "{{ image.configData.config.User || '' }}", operator: Equals, value: ""}]}}
`

const pinningPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: pin, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  rules:
  - name: digest
    match: {any: [{resources: {kinds: [Pod]}}]}
    verifyImages:
    - {imageReferences: ["*"], required: false, mutateDigest: true, verifyDigest: true, failureAction: Enforce}
`

const imageTest = `
apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata: {name: images}
policies: [rootless.yaml]
resources: [pods.yaml]
results:
- {policy: rootless, rule: user, resources: [good], kind: Pod, result: pass}
- {policy: rootless, rule: user, resources: [bad], kind: Pod, result: fail}
`

// With --registry, rules can read the metadata of images in registries, and tags are resolved. Without it that is an error.
func TestRegistry(t *testing.T) {
	s := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	for _, user := range []string{"", "1000"} {
		image, err := random.Image(64, 1)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config = config.DeepCopy()
		config.Config.User = user
		if image, err = mutate.ConfigFile(image, config); err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host + "/app:user" + user)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for file, text := range map[string]string{
		"rootless.yaml": rootlessPolicy, "pin.yaml": pinningPolicy, "kyverno-test.yaml": imageTest,
		"pods.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: good}, spec: {containers: [{name: c, image: \"HOST/app:user1000\"}]}}\n---\n" +
			"{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {containers: [{name: c, image: \"HOST/app:user\"}]}}\n",
		"pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {name: good}, spec: {containers: [{name: c, image: \"HOST/app:user1000\"}]}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.ReplaceAll(text, "HOST", host)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"apply", []string{"apply", file("rootless.yaml"), "-r", file("pods.yaml"), "--registry"}, 1,
			"default/Pod/bad failed:\n1 - user validation failure: images must name a user\n\npass: 1, fail: 1, warn: 0, error: 0, skip: 0 "},
		{"apply without", []string{"apply", file("rootless.yaml"), "-r", file("pods.yaml"), "--table", "--detailed-results"}, 1, "image registries are not available here"},
		{"digests", []string{"apply", file("pin.yaml"), "-r", file("pod.yaml"), "--registry", "--table", "--detailed-results"}, 0, "mutated image digest"},
		{"test", []string{"test", dir, "--registry"}, 0, "Test Summary: 2 tests passed and 0 tests failed"},
		{"test without", []string{"test", dir}, 1, "Test Summary: 0 tests passed and 2 tests failed"},
	} {
		var out, errs bytes.Buffer
		root := NewRoot()
		root.SetOut(&out)
		root.SetErr(&errs)
		if code := Main(append([]string{"ephor"}, c.args...), root); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit code %d, it printed\n%s\n%s\nwithout %s", c.name, code, &out, &errs, c.want)
		}
	}
}
