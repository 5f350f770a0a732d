package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

const imagePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: images-e2e}
spec:
  rules:
  - name: digest
    match: {any: [{resources: {kinds: [Pod], names: [images-*]}}]}
    verifyImages:
    - imageReferences: ["registry.example.com/*"]
      failureAction: Enforce
      mutateDigest: false
      required: false
  - name: signed
    match: {any: [{resources: {kinds: [Pod], names: [images-*]}}]}
    verifyImages:
    - imageReferences: ["signed.example.com/*"]
      skipImageReferences: ["signed.example.com/skipped*"]
      failureAction: Enforce
      attestors: [{entries: [{keys: {publicKeys: "{{ missing }}"}}]}]
    context: [{name: missing, configMap: {name: images-missing, namespace: default}}]
`

// Rules about images require digests without a request to a registry, and deny images that cannot be verified, with the reason.
func TestImages(t *testing.T) {
	applyPolicies(t, policyFile(t, imagePolicy))
	pod := func(image string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: images-pod, namespace: default}\nspec: {containers: [{name: c, image: '" + image + "'}]}\n"
	}
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const records = `{.metadata.annotations.kyverno\.io/verify-images} {.metadata.annotations.kyverno\.io/verify-images-scoped}`
	for image, want := range map[string]string{
		"registry.example.com/a" + digest: " ",
		"elsewhere.example.com/a":         " ",
		"signed.example.com/skipped" + digest: `{"signed.example.com/skipped` + digest + `":"skip"} ` +
			`{"version":1,"policies":{"/images-e2e":{"signed":{"signed.example.com/skipped` + digest + `":"skip"}}}}`,
	} {
		if got := must(t, pod(image), "create", "--dry-run=server", "-f", "-", "-o", "jsonpath="+records); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
	for image, want := range map[string]string{
		"registry.example.com/a:1": "digest: missing digest for registry.example.com/a:1",
		"signed.example.com/a:1":   "failed to get configmap default/images-missing",
	} {
		_, err := kubectl(t, pod(image), "create", "--dry-run=server", "-f", "-")
		if text, ok := refused(err); !ok || !strings.Contains(text, want) {
			t.Errorf("%s: %v, want %s", image, err, want)
		}
	}
}

const manifestPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: manifests-e2e}
spec:
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Service, ConfigMap, Secret, ServiceAccount, RoleBinding, PersistentVolumeClaim, Deployment, DaemonSet, StatefulSet, Job, CronJob, Pod, Ingress, NetworkPolicy, PodDisruptionBudget, HorizontalPodAutoscaler], names: [signed-*]}}]}
    validate:
      failureAction: Enforce
      manifests:
        attestors:
        - entries:
          - keys: {publicKeys: %q}
`

// A signed manifest still matches after the API server sets defaults. Any other change is denied.
func TestSignedManifests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	applyPolicies(t, policyFile(t, fmt.Sprintf(manifestPolicy, public)))

	// The annotations of the signed manifest replace ANNOTATIONS in the text.
	sign := func(manifest string) string {
		text := []byte(strings.ReplaceAll(manifest, "ANNOTATIONS", ""))
		sum := sha256.Sum256(text)
		signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		var message bytes.Buffer
		w := gzip.NewWriter(&message)
		_, _ = w.Write(text)
		_ = w.Close()
		return strings.ReplaceAll(manifest, "ANNOTATIONS", fmt.Sprintf(", annotations: {cosign.sigstore.dev/message: %q, cosign.sigstore.dev/signature: %q}",
			base64.StdEncoding.EncodeToString(message.Bytes()), base64.StdEncoding.EncodeToString(signature)))
	}
	const containers = `
      containers:
      - name: c
        image: registry.example.com/c
        ports: [{containerPort: 80}]
        resources: {limits: {cpu: 0.5, memory: 1024Mi}}
        livenessProbe: {httpGet: {port: 80}}
        env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
        volumeMounts: [{name: v, mountPath: /v}]
      volumes: [{name: v, configMap: {name: v}}, {name: h, hostPath: {path: /h}}]
`
	manifests := map[string]string{
		"Service":   "apiVersion: v1\nkind: Service\nmetadata: {name: signed-service, namespace: defaultANNOTATIONS}\nspec: {ports: [{port: 80}], selector: {app: x}}\n",
		"ConfigMap": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: signed-config, namespace: defaultANNOTATIONS}\ndata: {a: b}\n",
		"Deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: signed-deployment, namespace: defaultANNOTATIONS}\n" +
			"spec:\n  selector: {matchLabels: {app: x}}\n  template:\n    metadata: {labels: {app: x}}\n    spec:\n      serviceAccountName: robot" + containers,
		"CronJob": "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: signed-cron, namespace: defaultANNOTATIONS}\nspec:\n  schedule: '* * * * *'\n" +
			"  jobTemplate:\n    spec:\n     template:\n      spec:\n       restartPolicy: Never" + strings.ReplaceAll(containers, "\n", "\n "),
	}
	for kind, spec := range map[string]string{
		"v1 Secret":                "data: {a: YQ==}\n",
		"v1 ServiceAccount":        "automountServiceAccountToken: false\n",
		"v1 PersistentVolumeClaim": "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}\n",
		"v1 Pod":                   "spec:" + containers,
		"apps/v1 DaemonSet":        "spec:\n  selector: {matchLabels: {app: x}}\n  template:\n    metadata: {labels: {app: x}}\n    spec:" + containers,
		"apps/v1 StatefulSet": "spec:\n  selector: {matchLabels: {app: x}}\n  serviceName: x\n" +
			"  volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n" +
			"  template:\n    metadata: {labels: {app: x}}\n    spec:" + containers,
		"batch/v1 Job":                             "spec:\n  template:\n    spec:\n      restartPolicy: Never" + containers,
		"policy/v1 PodDisruptionBudget":            "spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}\n",
		"networking.k8s.io/v1 NetworkPolicy":       "spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]}\n",
		"rbac.authorization.k8s.io/v1 RoleBinding": "roleRef: {kind: Role, name: x}\nsubjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s}]\n",
		"networking.k8s.io/v1 Ingress":             "spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}\n",
		"autoscaling/v2 HorizontalPodAutoscaler":   "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}, maxReplicas: 3}\n",
	} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		manifests[kind] = "apiVersion: " + apiVersion + "\nkind: " + name + "\nmetadata: {name: signed-x, namespace: defaultANNOTATIONS}\n" + spec
	}
	for kind, manifest := range manifests {
		if _, err := kubectl(t, sign(manifest), "create", "--dry-run=server", "-f", "-"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := kubectl(t, strings.ReplaceAll(manifest, "ANNOTATIONS", ""), "create", "--dry-run=server", "-f", "-"); err == nil {
			t.Errorf("%s: an unsigned one was let in", kind)
		}
	}
	changed := strings.Replace(sign(manifests["Service"]), "port: 80", "port: 81", 1)
	_, err = kubectl(t, changed, "create", "--dry-run=server", "-f", "-")
	const want = `{"items":[{"key":"spec.ports.0.port","values":{"after":81,"before":80}}`
	if text, ok := refused(err); !ok || !strings.Contains(text, want) {
		t.Errorf("a changed Service: %v, want %s", err, want)
	}
}
