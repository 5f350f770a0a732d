package background

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
)

const recordedPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: recorded-NAME}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [recorded], selector: {matchLabels: {t: NAME}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-made", namespace: recorded, data: {data: {k: v}}}
`

// rewriteRecord writes the record of generated objects and rules again as a replica of commit 14a526b2 does: without what it does not know.
// It returns the names of the recorded objects and the policies of the recorded rules.
func rewriteRecord(t *testing.T) (names, policies []string) {
	t.Helper()
	known := func(text []byte, of func(map[string]any), unknown ...string) []byte {
		var all []map[string]any
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			of(e)
			for _, name := range unknown {
				delete(e, name)
			}
		}
		out, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	object := func(e map[string]any) {
		names = append(names, e["object"].(map[string]any)["name"].(string))
	}
	maps := cluster.Client.CoreV1().ConfigMaps(suite.Namespace)
	suite.Eventually(t, func() error {
		names, policies = nil, nil
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			cm := &list.Items[i]
			switch {
			case cm.Name == "ephor-generate-rules":
				cm.Data["rules"] = string(known([]byte(cm.Data["rules"]), func(e map[string]any) { policies = append(policies, e["policy"].(string)) }, "exact", "again"))
			case strings.HasPrefix(cm.Name, "ephor-generated-"):
				z, err := gzip.NewReader(bytes.NewReader(cm.BinaryData["objects.json.gz"]))
				if err != nil {
					return err
				}
				var text, out bytes.Buffer
				if _, err := text.ReadFrom(z); err != nil {
					return err
				}
				w := gzip.NewWriter(&out)
				_, _ = w.Write(known(text.Bytes(), object, "plan"))
				if err := w.Close(); err != nil {
					return err
				}
				cm.BinaryData["objects.json.gz"] = out.Bytes()
			default:
				continue
			}
			if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	return names, policies
}

// What an earlier release recorded has its effect: objects of rules that are deleted during the upgrade are deleted, others are identified
// without their labels and marks, and nothing is generated twice. A replica of the earlier release that runs beside ours loses nothing, and
// finds all of it after a downgrade.
func TestRecordOfAnEarlierRelease(t *testing.T) {
	r := start(t)
	namespaces(t, "recorded")
	stays, goes := strings.ReplaceAll(recordedPolicy, "NAME", "stays"), strings.ReplaceAll(recordedPolicy, "NAME", "goes")
	apply(t, stays+"\n---"+goes)
	for _, name := range []string{"a", "b"} {
		create(t, configMap("recorded", name, map[string]string{"t": "stays"}, nil))
	}
	create(t, configMap("recorded", "c", map[string]string{"t": "goes"}, nil))
	for _, name := range []string{"a-made", "b-made", "c-made"} {
		has(t, "recorded", name, "k", "v")
	}
	drained(t)
	suite.Stop(t, r)
	rewriteRecord(t)
	change(t, "recorded", "a-made", func(o *corev1.ConfigMap) { o.Labels, o.Annotations = nil, nil })
	cluster.Must(t, goes, "delete", "-f", "-")
	before := cluster.Must(t, "", "get", "configmap", "b-made", "-n", "recorded", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}")
	start(t)
	has(t, "recorded", "c-made", "k", gone)
	rewriteRecord(t)
	remove(t, "recorded", "a")
	has(t, "recorded", "a-made", "k", gone)
	create(t, configMap("recorded", "d", map[string]string{"t": "stays"}, nil))
	has(t, "recorded", "d-made", "k", "v")
	drained(t)
	suite.Until(t, "an earlier release can read the record", func() error {
		names, policies := rewriteRecord(t)
		for _, name := range []string{"b-made", "d-made", "recorded-stays"} {
			if !slices.Contains(append(names, policies...), name) {
				return fmt.Errorf("%s is not recorded: %q, %q", name, names, policies)
			}
		}
		return nil
	})
	if after := cluster.Must(t, "", "get", "configmap", "b-made", "-n", "recorded", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"); after != before {
		t.Errorf("an object that had not changed is written again: %s, before %s", after, before)
	}
}
