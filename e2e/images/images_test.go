package images

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/sigverify/fixture"
)

// One control plane and one admission controller serve the tests of the package. Registries on this machine are permitted.
var cluster suite.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Audited: true, Setup: func(ctx context.Context) error {
		_, err := cluster.Ephor.StartAdmission(ctx, "--httpBlocklist=169.254.0.0/16")
		return err
	}}))
}

const (
	host       = "registry.ephor.test"
	repository = host + "/app"
)

// policy returns a policy for the Pods of the namespace with the same name.
func policy(name, failurePolicy, registry, more string) string {
	key := strings.ReplaceAll(strings.TrimSpace(fixture.Load().Keys["p256"]), "\n", "\n                ")
	return `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ` + name + `}
spec:
  failurePolicy: ` + failurePolicy + `
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Pod], namespaces: [` + name + `]}}]}
    verifyImages:
    - imageReferences: ["` + registry + `/*"]
      failureAction: Enforce
      imageRegistryCredentials: {allowInsecureRegistry: true}
` + more + `
      attestors:
      - entries:
        - keys:
            publicKeys: |-
                ` + key + `
            rekor: {ignoreTlog: true}
            ctlog: {ignoreSCT: true}
`
}

func pod(namespace, name, image, annotations string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: " + namespace + ", annotations: {" + annotations + "}}\n" +
		"spec: {containers: [{name: c, image: '" + image + "'}]}\n"
}

// Signed images are admitted and pinned to their digests. Unsigned images, tags that moved, and images that annotations claim to be verified
// are denied. While the registry is down, failurePolicy applies to new images, and verified ones remain admitted.
func TestSignatures(t *testing.T) {
	f := fixture.Load()
	images := f.Registry()
	var down atomic.Bool
	server := fixture.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler) // closes the connection
		}
		r.Host = host
		images.ServeHTTP(w, r)
	}))
	signed, unsigned := f.Image("key-p256"), f.Image("unsigned")
	if signed.Repository != repository || unsigned.Repository != repository {
		t.Fatal(signed, unsigned)
	}
	at := server.Address + "/app:"
	must := func(stdin string, args ...string) string { return cluster.Must(t, stdin, args...) }
	refused := func(text, stdin string, args ...string) {
		t.Helper()
		suite.Eventually(t, func() error {
			switch _, err := cluster.Try(t, stdin, args...); {
			case err == nil:
				return fmt.Errorf("it was admitted, want %q", text)
			case !strings.Contains(err.Error(), text):
				return fmt.Errorf("%w, want %q", err, text)
			}
			return nil
		})
	}
	cluster.Namespace(t, "images-fail")
	cluster.Namespace(t, "images-ignore")
	must("", "create", "serviceaccount", "robot", "-n", "images-fail")

	// This Pod exists before the policy, and claims that its image was verified.
	forged := fmt.Sprintf(`kyverno.io/verify-images: '{"%[1]s":"pass"}', kyverno.io/verify-images-scoped: '{"version":1,"policies":{"/images-fail":{"signed":{"%[1]s":"pass"}}}}', `+
		`ephor.dev/verified-images: '{"seal":"v1.0123456789abcdef.%[2]s"}'`, server.Address+"/app@"+unsigned.Digest, strings.Repeat("0", 64))
	must(pod("images-fail", "forged", at+unsigned.Tag+"@"+unsigned.Digest, forged), "create", "-f", "-")

	cluster.Apply(t, policy("images-fail", "Fail", server.Address, ""))
	cluster.Apply(t, policy("images-ignore", "Ignore", server.Address, "      mutateDigest: false\n      verifyDigest: false\n      required: false"))
	must("", "wait", "--for=condition=Ready", "clusterpolicies", "--all")

	refused("no signatures found", pod("images-fail", "unsigned", at+unsigned.Tag, ""), "create", "-f", "-")
	refused("no signatures found", pod("images-ignore", "unsigned", at+unsigned.Tag, ""), "create", "-f", "-")
	refused("no signatures found", pod("images-fail", "claims", at+unsigned.Tag, forged), "create", "-f", "-")
	refused("no signatures found", "", "label", "pod", "forged", "-n", "images-fail", "a=b")

	must(pod("images-fail", "signed", at+signed.Tag, ""), "create", "-f", "-")
	got := must("", "get", "pod", "signed", "-n", "images-fail", "-o", `jsonpath={.spec.containers[0].image} {.metadata.annotations.kyverno\.io/verify-images} {.metadata.annotations.ephor\.dev/verified-images}`)
	want := at + signed.Tag + "@" + signed.Digest + ` {"` + server.Address + "/app@" + signed.Digest + `":"pass"} {"seal":"v1.`
	if !strings.HasPrefix(got, want) {
		t.Errorf("the signed Pod has %s, want %s", got, want)
	}

	down.Store(true)
	must("", "label", "pod", "signed", "-n", "images-fail", "a=b") // a verified image remains admitted
	refused("failed to verify image "+at+"notary-other", pod("images-fail", "new", at+"notary-other", ""), "create", "-f", "-")
	must(pod("images-ignore", "new", at+"notary-other", ""), "create", "-f", "-")
	must(pod("images-fail", "by-digest", server.Address+"/app@"+signed.Digest, ""), "create", "-f", "-") // the result is cached
	down.Store(false)

	images.Edit(repository, signed.Tag, func(m *fixture.Manifest) { m.Annotations = map[string]string{"moved": "yes"} })
	refused("no signatures found", pod("images-fail", "moved", at+signed.Tag, ""), "create", "-f", "-")
	must(pod("images-fail", "still", server.Address+"/app@"+signed.Digest, ""), "create", "-f", "-")
}
