package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/devcluster"
)

// rego holds the conditions of the 18 policies in Rego: each file defines `bad`.
//
//go:embed gatekeeper/*.rego
var rego embed.FS

// regoPrelude is what they share.
const regoPrelude = `spec := input.review.object.spec

containers := array.concat(spec.containers, array.concat(object.get(spec, "initContainers", []), object.get(spec, "ephemeralContainers", [])))

violation[{"msg": msg}] {
	bad
	msg := %s
}

`

// gatekeeperKind returns the kind of the constraints of a policy.
func gatekeeperKind(policy string) string {
	var out strings.Builder
	for part := range strings.SplitSeq(policy, "-") {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}

// regoTemplate returns the code of a template: the policy's condition in Rego, and its message.
func regoTemplate(policy object) (object, error) {
	name := policy["metadata"].(object)["name"].(string)
	text, err := rego.ReadFile("gatekeeper/" + name + ".rego")
	if err != nil {
		return nil, err
	}
	message := policy["spec"].(object)["validations"].([]any)[0].(object)["message"].(string)
	code := fmt.Sprintf("package %s\n\n"+regoPrelude, strings.ReplaceAll(name, "-", ""), strconv.Quote(strings.TrimSpace(message))) + string(text)
	return object{"engine": "Rego", "source": object{"rego": code}}, nil
}

// celTemplate returns the code of a template: the policy's own expressions.
func celTemplate(policy object) (object, error) {
	spec := policy["spec"].(object)
	source := object{"validations": spec["validations"]}
	if variables := spec["variables"]; variables != nil {
		source["variables"] = variables
	}
	return object{"engine": "K8sNativeValidation", "source": source}, nil
}

// gatekeeperTemplates returns the 18 policies as templates, and a constraint for each.
func gatekeeperTemplates(root string, code func(policy object) (object, error)) (templates, constraints []object, err error) {
	files, err := filepath.Glob(filepath.Join(root, "examples", celPolicies, "*.yaml"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		policy, err := readObject(file)
		if err != nil {
			return nil, nil, err
		}
		source, err := code(policy)
		if err != nil {
			return nil, nil, err
		}
		kind := gatekeeperKind(policy["metadata"].(object)["name"].(string))
		templates = append(templates, object{
			"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate", "metadata": object{"name": strings.ToLower(kind)},
			"spec": object{
				"crd":     object{"spec": object{"names": object{"kind": kind}}},
				"targets": []any{object{"target": "admission.k8s.gatekeeper.sh", "code": []any{source}}},
			},
		})
		constraints = append(constraints, constraint(kind, strings.ToLower(kind), nil))
	}
	return templates, constraints, nil
}

// constraint returns a constraint for Pods; narrow restricts which ones it matches.
func constraint(kind, name string, narrow object) object {
	match := object{"kinds": []any{object{"apiGroups": []any{""}, "kinds": []any{"Pod"}}}}
	for k, v := range narrow {
		match[k] = v
	}
	return object{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": kind, "metadata": object{"name": name}, "spec": object{"enforcementAction": "deny", "match": match}}
}

// excludedConstraint returns a constraint that does not match the Pod, by name, namespace or label.
func excludedConstraint(n int) object {
	name, other := fmt.Sprintf("excluded-%d", n), fmt.Sprintf("other-%d", n)
	narrow := []object{{"name": other}, {"namespaces": []any{other}}, {"labelSelector": object{"matchLabels": object{"team": other}}}}
	return constraint("DisallowPrivilegedContainers", name, narrow[n%len(narrow)])
}

// gatekeeperWith returns the start of Gatekeeper's webhook with the definitions, the arguments and the webhook configuration of its install
// manifest; code writes the templates.
func gatekeeperWith(code func(policy object) (object, error)) func(context.Context, *bench, *devcluster.Cluster) (*started, error) {
	return func(ctx context.Context, b *bench, c *devcluster.Cluster) (*started, error) {
		templates, constraints, err := gatekeeperTemplates(b.root, code)
		if err != nil {
			return nil, err
		}
		configuration, err := b.gatekeeperObjects(ctx, c)
		if err != nil {
			return nil, err
		}
		var ports [3]string
		for i := range ports {
			port, err := c.FreePort()
			if err != nil {
				return nil, err
			}
			ports[i] = strconv.Itoa(port)
		}
		certs := filepath.Join(c.Dir, "gatekeeper-certs")
		if err := errors.Join(os.MkdirAll(certs, 0o700), writeCertificate(certs)); err != nil {
			return nil, err
		}
		// Its statuses belong to its Pod: without one they are deleted as garbage all the time.
		const pod = `{apiVersion: v1, kind: Pod, metadata: {name: gatekeeper-1, namespace: gatekeeper-system}, spec: {containers: [{name: manager, image: gatekeeper,
			securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}}]}}`
		if err := c.Wait(ctx, "Gatekeeper's Pod", func() error {
			_, err := c.Kubectl(ctx, []byte(pod), "create", "-f", "-")
			return err
		}); err != nil {
			return nil, err
		}
		p, err := c.Run("peer-gatekeeper", []string{"POD_NAMESPACE=gatekeeper-system", "POD_NAME=gatekeeper-1", "NAMESPACE=gatekeeper-system", "CONTAINER_NAME=manager"},
			b.peers[gatekeeperManager], "--kubeconfig="+c.Kubeconfig, "--port="+ports[0], "--health-addr=127.0.0.1:"+ports[1],
			"--prometheus-port="+ports[2], "--cert-dir="+certs, "--disable-cert-rotation", "--logtostderr", "--exempt-namespace=gatekeeper-system",
			"--operation=webhook", "--operation=status", "--operation=generate", "--default-create-vap-for-templates=false",
			"--disable-opa-builtin={http.send}")
		if err != nil {
			return nil, err
		}
		addr := "127.0.0.1:" + ports[0]
		apply := func(ctx context.Context, all []object) error {
			text, err := documents(len(all), func(i int) object { return all[i] })
			if err != nil {
				return err
			}
			_, err = c.Kubectl(ctx, text, "apply", "-f", "-")
			return err
		}
		enforced := func(constraint object) bool {
			pods, _, _ := unstructured.NestedSlice(constraint, "status", "byPod")
			if len(pods) == 0 {
				return false
			}
			pod, _ := pods[0].(object)
			return pod["enforced"] == true
		}
		return &started{
				pid:  p.PID(),
				urls: func(context.Context) ([]string, error) { return []string{"https://" + addr + "/v1/admit"}, nil },
				install: func(ctx context.Context) error {
					if err := apply(ctx, templates); err != nil {
						return err
					}
					if err := c.Wait(ctx, "the definitions of the constraints", func() error { return apply(ctx, constraints) }); err != nil {
						return err
					}
					for _, one := range constraints {
						if err := allReady(ctx, c, strings.ToLower(one["kind"].(string)), enforced); err != nil {
							return err
						}
					}
					return nil
				},
				grow: func(ctx context.Context, n int) error {
					var all []object
					for i := range n {
						all = append(all, excludedConstraint(i))
					}
					if err := apply(ctx, all); err != nil {
						return err
					}
					return allReady(ctx, c, strings.ToLower(all[0]["kind"].(string)), enforced)
				},
			}, c.Wait(ctx, "Gatekeeper's webhook", func() error {
				select {
				case <-p.Done():
					return fmt.Errorf("it ended:\n%s", p.Tail(20))
				default:
				}
				bundle, err := certificateOf(addr)
				if err != nil {
					return err
				}
				for i := range configuration.Webhooks {
					w := &configuration.Webhooks[i]
					if s := w.ClientConfig.Service; s != nil {
						url := "https://" + addr + *s.Path
						w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle}
					}
				}
				return register(ctx, c, configuration)
			})
	}
}

// gatekeeperObjects applies the objects of the install manifest, except workloads and webhook configurations, and returns the validating one.
func (b *bench) gatekeeperObjects(ctx context.Context, c *devcluster.Cluster) (configuration *admissionregistrationv1.ValidatingWebhookConfiguration, err error) {
	path := b.peers[gatekeeperManifest]
	if path == "" {
		return nil, fmt.Errorf("PEER does not name %s, %s", gatekeeperManifest, peerPrograms[gatekeeperManifest])
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rest []byte
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(document, &head); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		switch head.Kind {
		case "ValidatingWebhookConfiguration":
			if err := yaml.Unmarshal(document, &configuration); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		case "Deployment", "MutatingWebhookConfiguration", "PodDisruptionBudget", "ResourceQuota":
		default:
			rest = append(append(rest, "---\n"...), append(document, '\n')...)
		}
	}
	if configuration == nil {
		return nil, fmt.Errorf("%s has no ValidatingWebhookConfiguration", path)
	}
	if _, err := c.Kubectl(ctx, rest, "apply", "--server-side", "-f", "-"); err != nil {
		return nil, err
	}
	_, err = c.Kubectl(ctx, nil, "wait", "--for=condition=Established", "crd", "--all")
	return configuration, err
}
