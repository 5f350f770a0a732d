package cel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/e2e/suite"
)

// codePage is the page whose table TestCodeInPods runs.
const codePage = "../../docs/policies/code-in-pods.md"

const (
	codeNamespace = "e2e-code"
	goodImage     = "registry.example.com/pause:3.10@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	badImage      = "evil.example.org/x:1@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	badRegistry   = "An image has to come from registry.example.com or registry.k8s.io."
)

// codeFamily is one of the two families, with its policies: files of the library, and manifests of its own.
type codeFamily struct {
	name, file, more string
}

var codeFamilies = []codeFamily{
	{"classic", "policy.yaml", `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: limit-cpu}
spec:
  background: false
  rules:
  - name: limits
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {failureAction: Enforce, message: at most 2 CPUs, pattern: {spec: {containers: [{=(resources): {=(limits): {=(cpu): "<=2"}}}]}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: no-exec}
spec:
  background: false
  rules:
  - name: exec
    match: {any: [{resources: {kinds: [Pod/exec, Pod/attach], namespaces: [` + codeNamespace + `]}}]}
    validate: {failureAction: Enforce, message: no commands in production, deny: {}}
`},
	{"CEL", "policy-cel.yaml", ""},
}

// way brings code into a Pod. try makes the request with the image, or with another value that the policies refuse if bad is set. text is
// part of the refusal.
type way struct {
	try  func(t *testing.T, bad bool) error
	text string
}

// TestCodeInPods runs each row of the table of docs/policies/code-in-pods.md with the policies of the library, in both families: a request
// that violates a policy is refused, and another one is admitted. A violation that a Pod had before does not refuse debug containers and
// resizes.
func TestCodeInPods(t *testing.T) {
	cluster.Namespace(t, codeNamespace)
	cluster.Must(t, "", "label", "namespace", codeNamespace, "stage=production")
	for _, name := range []string{"running", "old"} {
		image := map[string]string{"running": goodImage, "old": badImage}[name]
		pod := codePod(name, `containers: [{name: c, image: "`+image+`", resources: {requests: {cpu: 1}, limits: {cpu: 1}}}]`)
		eventually(t, func() error { _, err := kubectl(t, pod, "create", "-f", "-"); return err })
		t.Cleanup(func() { kubectl(t, "", "delete", "pod", name, "-n", codeNamespace, "--force", "--grace-period=0") })
	}
	cluster.Apply(t, codeDefinition)
	cluster.Must(t, "", "wait", "--for=condition=Established", "crd/crontasks.example.com")
	ways := codeWays()
	if rows := codeRows(t); !slices.Equal(rows, sorted(ways)) {
		t.Fatalf("the page has the rows\n%s\nand the test\n%s", strings.Join(rows, "\n"), strings.Join(sorted(ways), "\n"))
	}
	for _, f := range codeFamilies {
		t.Run(f.name, func(t *testing.T) {
			f.install(t)
			for _, name := range sorted(ways) {
				w := ways[name]
				if name == customResources && f.name == "classic" {
					continue // only its Pods are reviewed
				}
				if err := w.try(t, true); err == nil || !strings.Contains(err.Error(), w.text) {
					t.Errorf("%s: a violation is not refused: %v", name, err)
				}
				if err := w.try(t, false); err != nil && strings.Contains(err.Error(), "denied the request") {
					t.Errorf("%s: refused without a violation: %v", name, err)
				}
			}
			if err := debug(t, "old", goodImage); err != nil {
				t.Errorf("a debug container in a Pod that violated a policy before: %v", err)
			}
			if f.name == "CEL" {
				if err := debug(t, "old", badImage); err == nil || !strings.Contains(err.Error(), badRegistry) {
					t.Errorf("a debug container with the violation that the Pod had before: %v", err)
				}
			}
			if err := resize(t, "old", "1500m"); err != nil {
				t.Errorf("a resize of a Pod that violated a policy before: %v", err)
			}
		})
	}
}

// install applies the policies of the family, and waits until each of them refuses.
func (f codeFamily) install(t *testing.T) {
	t.Helper()
	manifests := f.more
	for _, name := range []string{"restrict-image-registries", "disallow-latest-tag", "require-image-digest"} {
		manifests += "---\n" + read(t, filepath.Join("../../examples/library", name, f.file))
	}
	if f.more == "" {
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, codePage), -1) {
			manifests += "---\n" + block[1]
		}
	}
	cluster.Apply(t, manifests)
	denied(t, codePod("p", `containers: [{name: c, image: "`+badImage+`"}]`), badRegistry)
	for text, image := range map[string]string{"needs a tag other than latest": "registry.example.com/pause", "named by its digest": "registry.example.com/pause:3.10"} {
		denied(t, codePod("p", `containers: [{name: c, image: "`+image+`"}]`), text)
	}
	for sub, patch := range map[string]string{ // without storing anything
		"ephemeralcontainers": `{"spec":{"ephemeralContainers":[{"name":"d","image":"` + badImage + `"}]}}`,
		"resize":              `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"3"},"limits":{"cpu":"3"}}}]}}`,
	} {
		eventually(t, func() error {
			if _, err := kubectl(t, "", "patch", "pod", "running", "-n", codeNamespace, "--subresource="+sub, "--dry-run=server", "-p", patch); err == nil {
				return errNotDenied
			} else if !strings.Contains(err.Error(), "denied the request") {
				return err
			}
			return nil
		})
	}
}

const customResources = "Custom resources with Pod templates"

// codeWays returns the ways, by the first column of the page.
func codeWays() map[string]way {
	image := func(bad bool) string {
		if bad {
			return badImage
		}
		return goodImage
	}
	created := func(spec string) way {
		return way{func(t *testing.T, bad bool) error {
			_, err := kubectl(t, codePod("p", strings.ReplaceAll(spec, "IMAGE", image(bad))), "create", "--dry-run=server", "-f", "-")
			return err
		}, badRegistry}
	}
	const container = `containers: [{name: c, image: "` + goodImage + `"}]`
	return map[string]way{
		"Containers": created(`containers: [{name: c, image: "IMAGE"}]`),
		"Init containers and sidecars (`restartPolicy: Always`)": created(container + `, initContainers: [{name: i, image: "IMAGE", restartPolicy: Always}]`),
		"Image volumes": created(container + `, volumes: [{name: v, image: {reference: "IMAGE"}}]`),
		"Another image in a running Pod": {func(t *testing.T, bad bool) error {
			_, err := kubectl(t, "", "patch", "pod", "running", "-n", codeNamespace, "--dry-run=server", "-p", `{"spec":{"containers":[{"name":"c","image":"`+image(bad)+`"}]}}`)
			return err
		}, badRegistry},
		"Debug containers (`kubectl debug`)": {func(t *testing.T, bad bool) error { return debug(t, "running", image(bad)) }, badRegistry},
		"More resources for a running container": {func(t *testing.T, bad bool) error {
			cpu := "1500m"
			if bad {
				cpu = "3"
			}
			return resize(t, "running", cpu)
		}, "at most 2 CPUs"},
		"Sidecars that another webhook injects": {func(t *testing.T, bad bool) error {
			cluster.Apply(t, strings.NewReplacer("IMAGE", image(bad), "BAD", fmt.Sprint(bad)).Replace(codeInjector))
			var err error
			eventually(t, func() error {
				var out string
				out, err = kubectl(t, strings.Replace(codePod("p", container), "{name: p,", "{name: p, labels: {inject: '"+fmt.Sprint(bad)+"'},", 1),
					"create", "--dry-run=server", "-o", "jsonpath={.spec.containers[*].name}", "-f", "-")
				if err == nil && !strings.Contains(out, "sidecar") {
					return errors.New("nothing was injected: " + out)
				}
				return nil
			})
			return err
		}, badRegistry},
		"Deployments and other controllers": {func(t *testing.T, bad bool) error {
			_, err := kubectl(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: `+codeNamespace+`}, spec: {selector: {matchLabels: {a: b}},
				template: {metadata: {labels: {a: b}}, spec: {`+container+`, volumes: [{name: v, image: {reference: "`+image(bad)+`"}}]}}}}`, "create", "--dry-run=server", "-f", "-")
			return err
		}, badRegistry},
		customResources: {func(t *testing.T, bad bool) error {
			name := "registry.example.com/x"
			if bad {
				name = badImage
			}
			_, err := kubectl(t, `{apiVersion: example.com/v1, kind: CronTask, metadata: {name: c, namespace: `+codeNamespace+`}, spec: {template: {spec: {containers: [{name: c, image: "`+name+`"}]}}}}`,
				"create", "--dry-run=server", "-f", "-")
			return err
		}, "use images of registry.example.com"},
		"Static Pods": {func(t *testing.T, bad bool) error {
			mirror := strings.Replace(codePod("p", `nodeName: node1, containers: [{name: c, image: "`+image(bad)+`"}]`), "{name: p,", "{name: p, annotations: {kubernetes.io/config.mirror: x},", 1)
			_, err := kubectl(t, mirror, "create", "--dry-run=server", "-f", "-")
			return err
		}, badRegistry},
		"Commands in a running container (`kubectl exec`, `attach`)": {func(t *testing.T, bad bool) error {
			if !bad {
				return nil // there is no node to run a command on
			}
			for _, args := range [][]string{{"exec", "running", "--", "ls"}, {"attach", "running"}} {
				if _, err := kubectl(t, "", append(args[:2:2], append([]string{"-n", codeNamespace}, args[2:]...)...)...); err == nil || !strings.Contains(err.Error(), "no commands in production") {
					return err
				}
			}
			return errors.New("no commands in production")
		}, "no commands in production"},
	}
}

// codeInjector selects Pods by a label with the value BAD, so that an injector that is not yet in force injects nothing instead of its former image.
const codeInjector = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: inject}
spec:
  background: false
  rules:
  - name: sidecar
    match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {inject: "BAD"}}}}]}
    mutate: {patchStrategicMerge: {spec: {containers: [{name: sidecar, image: "IMAGE"}]}}}
`

const codeDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontasks.example.com}
spec:
  group: example.com
  names: {kind: CronTask, plural: crontasks}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// debug adds a debug container to a Pod.
func debug(t *testing.T, pod, image string) error {
	_, err := kubectl(t, "", "debug", pod, "-n", codeNamespace, "--image="+image, "--profile=restricted", "--attach=false", "--quiet")
	return err
}

// resize changes the processor time of a Pod's container, without storing it.
func resize(t *testing.T, pod, cpu string) error {
	_, err := kubectl(t, "", "patch", "pod", pod, "-n", codeNamespace, "--subresource=resize", "--dry-run=server",
		"-p", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"`+cpu+`"},"limits":{"cpu":"`+cpu+`"}}}]}}`)
	return err
}

// codePod returns a Pod with fields of its spec.
func codePod(name, spec string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, namespace: ` + codeNamespace + `}, spec: {automountServiceAccountToken: false, ` + spec + `}}`
}

// codeRows returns the first column of the table of the page, sorted.
func codeRows(t *testing.T) []string {
	t.Helper()
	var rows []string
	for line := range strings.SplitSeq(read(t, codePage), "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 5 && strings.HasPrefix(line, "| ") && cells[0] != "| What" {
			rows = append(rows, strings.TrimPrefix(cells[0], "| "))
		}
	}
	slices.Sort(rows)
	return rows
}

func sorted(ways map[string]way) []string {
	var names []string
	for name := range ways {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDebugContainersAndPodSecurity: with the 18 policies for Pod security of each family, a debug container is refused by the policy that it
// violates, and one that violates none is admitted.
func TestDebugContainersAndPodSecurity(t *testing.T) {
	cluster.Namespace(t, codeNamespace)
	const secure = `allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true`
	pod := codePod("secure", `securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, image: x, securityContext: {`+secure+`}}]`)
	eventually(t, func() error { _, err := kubectl(t, pod, "create", "-f", "-"); return err })
	t.Cleanup(func() { kubectl(t, "", "delete", "pod", "secure", "-n", codeNamespace, "--force", "--grace-period=0") })
	add := func(context string) error {
		patch, err := yaml.YAMLToJSON([]byte(`{spec: {ephemeralContainers: [{name: d, image: x, securityContext: {` + context + `}}]}}`))
		if err == nil {
			_, err = kubectl(t, "", "patch", "pod", "secure", "-n", codeNamespace, "--subresource=ephemeralcontainers", "--dry-run=server", "-p", string(patch))
		}
		return err
	}
	for _, folder := range []string{"pod-security", "pod-security-cel"} {
		t.Run(folder, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("../../examples", folder, "*.yaml"))
			if err != nil || len(files) != 18 {
				t.Fatal(files, err)
			}
			var manifests []string
			for _, file := range files {
				manifests = append(manifests, read(t, file))
			}
			cluster.Apply(t, strings.Join(manifests, "\n---\n"))
			for name, context := range map[string]string{
				"disallow-capabilities":          `allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL], add: [SYS_ADMIN]}`,
				"disallow-capabilities-strict":   `allowPrivilegeEscalation: false, runAsNonRoot: true`,
				"disallow-privilege-escalation":  `capabilities: {drop: [ALL]}, runAsNonRoot: true`,
				"disallow-privileged-containers": `privileged: true`,
				"disallow-selinux":               secure + `, seLinuxOptions: {type: unconfined_t}`,
				"require-run-as-non-root-user":   secure + `, runAsUser: 0`,
				"require-run-as-nonroot":         `allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: false`,
				"restrict-apparmor-profiles":     secure + `, appArmorProfile: {type: Unconfined}`,
				"restrict-seccomp":               secure + `, seccompProfile: {type: Unconfined}`,
				"restrict-seccomp-strict":        secure + `, seccompProfile: {type: Unconfined}`,
			} {
				suite.Until(t, name+" refuses a debug container", func() error {
					if err := add(context); err == nil {
						return errNotDenied
					} else if !strings.Contains(err.Error(), name) {
						return err
					}
					return nil
				})
			}
			if err := add(secure); err != nil {
				t.Errorf("a debug container without violations: %v", err)
			}
		})
	}
}
