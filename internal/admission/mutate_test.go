package admission

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
)

const mutatePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: NAME}
spec:
  failurePolicy: FAIL
  emitWarning: true
  rules:
  - name: add
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {added: "PATCH"}}}}
`

func mutating(name, failurePolicy, text string) string {
	return strings.NewReplacer("NAME", name, "FAIL", failurePolicy, "PATCH", text).Replace(mutatePolicy)
}

// The answer of a mutation has the layout of the recorded one: an added map of labels is one operation.
func TestMutationAnswer(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, mutating("add-label", "Fail", "yes-added"))
	for path, want := range map[string]string{
		"/mutate/fail":   `[{"op":"add","path":"/metadata/labels","value":{"added":"yes-added"}}]`,
		"/mutate":        `[{"op":"add","path":"/metadata/labels","value":{"added":"yes-added"}}]`,
		"/mutate/ignore": "",
		"/validate/fail": "",
	} {
		_, res := postReview(t, srv, path, configMap(""))
		if !res.Allowed || string(res.Patch) != want || (want != "") != (res.PatchType != nil && *res.PatchType == admissionv1.PatchTypeJSONPatch) {
			t.Errorf("%s: %+v, patch %s", path, res, res.Patch)
		}
		if want != "" && (len(res.Warnings) != 1 || res.Warnings[0] != "policy add-label.add: mutated ConfigMap/c in namespace shop") {
			t.Errorf("%s: warnings %q", path, res.Warnings)
		}
	}
	if _, res := postReview(t, srv, "/mutate/fail", configMap(`,"labels":{"added":"yes-added"}`)); !res.Allowed || res.Patch != nil {
		t.Errorf("an object that has the label already: %+v", res)
	}
	recorded, err := os.ReadFile(filepath.Join(os.Getenv("EPHOR_REFERENCE"), "recordings", "review-response-configmap.txt"))
	if err != nil {
		t.Skip("EPHOR_REFERENCE names no folder with the recording: ", err)
	}
	_, res := postReview(t, srv, "/mutate/fail", configMap(""))
	if !strings.Contains(string(recorded), `"patch": "`+base64.StdEncoding.EncodeToString(res.Patch)+`"`) {
		t.Errorf("the recorded patch is another one:\n%s", recorded)
	}
}

// Numbers that no patch names are not changed, even if a float64 cannot represent them.
func TestMutationLeavesNumbersAlone(t *testing.T) {
	policy := `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: next}
spec:
  rules:
  - name: first
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {spec: {copy: "{{ request.object.spec.small }}", list: [1, 2.5]}}}
  - name: second
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchesJson6902: '[{op: replace, path: /spec/small, value: 9007199254740993}]'}
`
	srv, _ := setup(t, fakeCluster{}, nil, policy)
	body := configMap(`},"spec":{"big":9007199254740993,"small":3`)
	_, res := postReview(t, srv, "/mutate/fail", body)
	const want = `[{"op":"add","path":"/spec/copy","value":3},{"op":"add","path":"/spec/list","value":[1,2.5]},{"op":"replace","path":"/spec/small","value":9007199254740993}]`
	if !res.Allowed || string(res.Patch) != want {
		t.Errorf("%+v\n got %s\nwant %s", res.Result, res.Patch, want)
	}
}

func TestMutationFailures(t *testing.T) {
	const broken = "{{ request.object.spec.absent }}"
	refused := "mutation policy bad error: failed to apply policy bad rules [add: variable substitution failed: failed to resolve " +
		`request.object.spec.absent at path /mutate/patchStrategicMerge/metadata/labels/added: JMESPath query failed: Unknown key "spec" in path]`
	strict, _ := setup(t, fakeCluster{}, nil, mutating("bad", "Fail", broken), mutating("good", "Fail", "x"))
	if _, res := postReview(t, strict, "/mutate/fail", configMap("")); res.Allowed || res.Result.Message != refused || res.Patch != nil {
		t.Errorf("failurePolicy Fail: %+v %+v", res, res.Result)
	}
	lenient, log := setup(t, fakeCluster{}, nil, mutating("bad", "Ignore", broken), mutating("good", "Ignore", "x"))
	_, res := postReview(t, lenient, "/mutate/ignore", configMap(""))
	if !res.Allowed || string(res.Patch) != `[{"op":"add","path":"/metadata/labels","value":{"added":"x"}}]` {
		t.Errorf("failurePolicy Ignore: %+v, patch %s", res, res.Patch)
	}
	if !strings.Contains(log.String(), "policy=bad") {
		t.Errorf("the failure that no response holds is not in the log: %s", log)
	}
	for _, op := range []admissionv1.Operation{admissionv1.Delete, admissionv1.Connect} {
		body := configMap("", func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = op, nil })
		if _, res := postReview(t, strict, "/mutate/fail", body); !res.Allowed || res.Patch != nil {
			t.Errorf("%s without an object: %+v", op, res)
		}
	}
}
