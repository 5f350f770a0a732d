package cel

import (
	"fmt"
	"strings"
	"testing"
)

// imagePolicy returns an ImageValidatingPolicy for the namespace of its name; more contains the rest of it.
func imagePolicy(name, more string) string {
	return `
apiVersion: policies.kyverno.io/v1
kind: ImageValidatingPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + name + `}}
` + more
}

func podIn(namespace, image string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ` + namespace + `}, spec: {containers: [{name: c, image: "` + image + `"}]}}`
}

// An ImageValidatingPolicy without signatures denies and admits by the names of images, in Pods and in their controllers. It is ready, its
// status contains the generated policies, and it sends no request to a registry.
func TestImageValidatingPolicy(t *testing.T) {
	cluster.Namespace(t, "e2e-registry")
	apply(t, "imagevalidatingpolicy", "e2e-registry", imagePolicy("e2e-registry", `
  validationConfigurations: {mutateDigest: false, verifyDigest: false, required: false}
  attestors: []
  validations:
  - expression: images.containers.all(i, i.startsWith('registry.example.com/'))
    message: use images of registry.example.com
`))
	denied(t, podIn("e2e-registry", "nginx"), `admission webhook "ivpol.validate.kyverno.svc-fail" denied the request: Policy e2e-registry failed: use images of registry.example.com`)
	denied(t, podIn("e2e-registry", "registry.example.com/web:1"), "")
	denied(t, strings.NewReplacer("e2e-cel", "e2e-registry").Replace(deployment("test")), "Policy e2e-registry failed")
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "imagevalidatingpolicy", "e2e-registry", "-o", "jsonpath={.status.conditionStatus.ready} {.status.autogen.configs.cronjobs.targets[*].kind} {.status.conditionStatus.message}")
		if err == nil && out != "true CronJob " {
			err = fmt.Errorf("the status has %q", out)
		}
		return err
	})
}

// An image without a digest is denied before a request to a registry. If the policy adds digests and the registry does not answer, the
// mutating webhook denies. With failurePolicy Ignore the validating webhook gets the request.
func TestImageDigests(t *testing.T) {
	cluster.Namespace(t, "e2e-digest")
	apply(t, "imagevalidatingpolicy", "e2e-digest", imagePolicy("e2e-digest", `
  validationConfigurations: {required: false}
  matchImageReferences: [{glob: "127.0.0.1:1/*"}]
  attestors: []
  validations: [{expression: "true"}]
`))
	denied(t, podIn("e2e-digest", "127.0.0.1:1/web:1"), `admission webhook "ivpol.mutate.kyverno.svc-fail" denied the request: Policy e2e-digest error: failed to update digest: failed to resolve digest for image 127.0.0.1:1/web:1: `)
	denied(t, podIn("e2e-digest", "registry.example.com/web:1"), "")
	must(t, "", "patch", "imagevalidatingpolicy", "e2e-digest", "--type=merge", "-p", `{"spec": {"failurePolicy": "Ignore"}}`)
	denied(t, podIn("e2e-digest", "127.0.0.1:1/web:1"), `admission webhook "ivpol.validate.kyverno.svc-ignore" denied the request: Policy e2e-digest failed: image 127.0.0.1:1/web:1 does not have a digest`)
}

// With failurePolicy Fail, a policy that requires a signature denies if the registry cannot be read.
func TestUnreachableSignatures(t *testing.T) {
	cluster.Namespace(t, "e2e-signed")
	apply(t, "imagevalidatingpolicy", "e2e-signed", imagePolicy("e2e-signed", `
  validationConfigurations: {mutateDigest: false, verifyDigest: false, required: false}
  matchImageReferences: [{glob: "127.0.0.1:1/*"}]
  attestors: [{name: team, cosign: {key: {data: "-----BEGIN PUBLIC KEY-----"}}}]
  validations: [{expression: "images.containers.all(i, verifyImageSignatures(i, [attestors.team]) > 0)", message: not signed by the team}]
`))
	denied(t, podIn("e2e-signed", "127.0.0.1:1/web:1"), `admission webhook "ivpol.validate.kyverno.svc-fail" denied the request: Policy e2e-signed error: failed to evaluate policy: failed to verify the image: `)
	denied(t, podIn("e2e-signed", "registry.example.com/web:1"), "")
}
