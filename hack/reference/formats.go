package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/decision"
)

// format is a kind of file that the program reads or writes, and that no cluster stores.
type format struct {
	kind, group, version string
	of                   reflect.Type
	example              string // in YAML, or one line of JSON
}

// formats are the kinds of files, in the order of the index.
var formats = []format{
	{"Test", "cli.kyverno.io", "v1alpha1", reflect.TypeFor[v1alpha1.Test](), `apiVersion: cli.kyverno.io/v1alpha1
kind: Test
metadata:
  name: require-team
policies: [require-team.yaml]
resources: [pods.yaml]
variables: values.yaml
userinfo: user.yaml
results:
- policy: require-team
  rule: label-team
  resources: [good, shop/other]
  result: pass
- policy: require-team
  rule: label-team
  resources: [bad]
  operation: UPDATE
  result: fail
apiCallResponses:
- urlPath: /api/v1/namespaces/shop/pods
  response:
    body: {items: []}
- url: https://scanner.platform.svc/check
  method: POST
  response:
    statusCode: 200
    body: {allowed: true}
globalContextEntries:
- name: deployments
  data: [{metadata: {name: web}}]
`},
	{"Values", "cli.kyverno.io", "v1alpha1", reflect.TypeFor[v1alpha1.Values](), `apiVersion: cli.kyverno.io/v1alpha1
kind: Values
metadata:
  name: values
globalValues:
  request.operation: UPDATE
policies:
- name: require-team
  resources:
  - name: web                   # for this resource only
    values:
      teams.data.names: shop
  rules:
  - name: label-team            # for this rule only: the context entry teams
    values:
      teams:
        data: {names: "shop,infra"}
    foreachValues:
      owner.data.name: [shop, infra]
namespaceSelector:
- name: shop
  labels: {env: prod}
subresources:
- subresource: {name: pods/eviction, kind: Eviction, group: policy, version: v1}
  parentResource: {name: pods, kind: Pod, version: v1}
`},
	{"UserInfo", "cli.kyverno.io", "v1alpha1", reflect.TypeFor[v1alpha1.UserInfo](), `apiVersion: cli.kyverno.io/v1alpha1
kind: UserInfo
metadata:
  name: user
roles: ["shop:deployer"]
clusterRoles: [view]
userInfo:
  username: jane@example.com
  groups: [developers, "system:authenticated"]
`},
	{"ClusterResource", "cli.kyverno.io", "v1alpha1", reflect.TypeFor[v1alpha1.ClusterResource](), `apiVersion: cli.kyverno.io/v1alpha1
kind: ClusterResource
metadata:
  name: cluster
spec:
  crds: [crds/widgets.yaml]
  resources:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: teams, namespace: platform}
    data: {names: "shop,infra"}
`},
	{"Context", "cli.kyverno.io", "v1alpha1", reflect.TypeFor[v1alpha1.Context](), `apiVersion: cli.kyverno.io/v1alpha1
kind: Context
metadata:
  name: context
spec:
  resources:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: teams, namespace: platform}
    data: {names: "shop,infra"}
  images:
  - image: registry.example.com/web:1.4
    registry: registry.example.com
    repository: web
    configData:
      config: {User: "1000"}
`},
	{"Decision", recordGroup, "v1", reflect.TypeFor[decision.Record](), record()},
}

// recordGroup is the group of the schema of records.
var recordGroup, _, _ = strings.Cut(decision.Schema, "/")

// record returns a record of a decision as it is written.
func record() string {
	r := decision.Record{
		Schema: decision.Schema, Time: time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC), Duration: 1_200_000, UID: "2f0d5ac4-8d6c-4a52-9f4b-1f0e6d8c3b11",
		Webhook: "ValidatingWebhookConfiguration", User: "jane@example.com", Groups: []string{"developers", "system:authenticated"}, Operation: "CREATE",
		Version: "v1", Kind: "Pod", Namespace: "shop", Name: "web", Verdict: decision.Refused, Message: "resource Pod/shop/web was blocked …", Share: 1,
		Rules: []decision.Result{{Policy: "require-team", Rule: "label-team", Status: "fail", Action: "Enforce", Message: "validation error: A Pod needs the label team.", Duration: 90_000}},
	}
	text, err := r.AppendJSON(nil)
	if err != nil {
		panic("reference: " + err.Error()) // the record above can be written
	}
	return string(text)
}

// intros describe formats beyond the comments of their types.
var intros = map[string]string{
	"Decision": "Decision is a record of a decision of the admission controller. A file of records has one JSON object on each line " +
		"([what admission decided](../../operating/decisions.md)). Fields may be added to a version; none is removed or changes its meaning.",
}

// definition returns the format in the form of a definition of a cluster.
func (f *format) definition(d *types) (*apiextensionsv1.CustomResourceDefinition, error) {
	s, err := d.schema(f.of)
	if err != nil {
		return nil, err
	}
	if s.Description = intros[f.kind]; s.Description == "" {
		if s.Description, err = d.ofType(f.of); err != nil {
			return nil, err
		}
	}
	if f.group == recordGroup {
		delete(s.Properties, "apiVersion")
	} else {
		into := reflect.New(f.of).Interface()
		if err := yaml.UnmarshalStrict([]byte(f.example), into); err != nil {
			return nil, fmt.Errorf("the example of %s: %w", f.kind, err)
		}
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	out.Spec.Group, out.Spec.Names.Kind, out.Spec.Names.Plural = f.group, f.kind, strings.ToLower(f.kind)
	out.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: f.version, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &s}}}
	return out, nil
}

// write writes the schema of the format, for the command schema, and returns its page.
func (f *format) write(d *types, dir string) (string, error) {
	definition, err := f.definition(d)
	if err != nil {
		return "", err
	}
	version := definition.Spec.Versions[0]
	text, err := json.MarshalIndent(map[string]any{
		"spec": map[string]any{
			"group": f.group, "names": map[string]any{"kind": f.kind},
			"versions": []any{map[string]any{"name": f.version, "served": true, "schema": version.Schema}},
		},
	}, "", " ")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, strings.ToLower(f.kind)+".json"), append(text, '\n'), 0o644); err != nil {
		return "", err
	}
	p := &page{}
	p.title(f.kind, version.Schema.OpenAPIV3Schema.Description)
	if f.group == recordGroup {
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(f.example), "", "  "); err != nil {
			return "", err
		}
		p.line("One record, with line breaks for reading:\n")
		p.code("json", indented.String())
	} else {
		p.code("yaml", f.example)
	}
	p.rows(version.Schema.OpenAPIV3Schema, "apiVersion", "kind", "metadata")
	return p.String(), nil
}
