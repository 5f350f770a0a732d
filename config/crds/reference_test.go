package crds_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/config/crds"
)

// TestReference holds each of our definitions against the recorded one of the same name: the same versions, and for each
// every field with the same type, default, enum, limits and required fields. Prose is not compared, nor is
// `deprecated`: Ephor keeps both policy families.
func TestReference(t *testing.T) {
	folder := referenceFolder(t)
	for _, name := range crds.Names() {
		if strings.HasPrefix(name, "openreports.io_") {
			continue // optional with the reference, which does not hold their definitions
		}
		t.Run(name, func(t *testing.T) {
			want := decode(t, read(t, filepath.Join(folder, "crds", name)))
			got := decode(t, crds.File(name))
			d := compareDefinitions(want, got)
			for _, line := range d.lines {
				field, ok := strings.CutSuffix(line, " is not in the reference")
				if !ok {
					field, ok = strings.CutSuffix(line, `: subresources is {"status":{}}, the reference has null`)
				}
				if !(ok && added[name+" "+field] != "") && !longer(name, line) {
					t.Error(line)
				}
			}
			t.Logf("%d fields compared", d.fields)
			if d.fields == 0 {
				t.Error("no field was compared: is the reference a CustomResourceDefinition?")
			}
		})
	}
}

// added are the fields and subresources that only ours have, each with its reason; docs/migrating/differences.md names them too.
var added = map[string]string{
	"kyverno.io_clusterpolicies.yaml v1 .status.backgroundScan":      scanned,
	"kyverno.io_clusterpolicies.yaml v2beta1 .status.backgroundScan": scanned,
	"kyverno.io_policies.yaml v1 .status.backgroundScan":             scanned,
	"kyverno.io_policies.yaml v2beta1 .status.backgroundScan":        scanned,
	"kyverno.io_clusterpolicies.yaml v1 .status.budget":              exceeded,
	"kyverno.io_clusterpolicies.yaml v2beta1 .status.budget":         exceeded,
	"kyverno.io_policies.yaml v1 .status.budget":                     exceeded,
	"kyverno.io_policies.yaml v2beta1 .status.budget":                exceeded,
	"kyverno.io_policyexceptions.yaml v2 .status":                    unexempted,
	"kyverno.io_policyexceptions.yaml version \"v2\"":                unexempted,
	"kyverno.io_policyexceptions.yaml v2beta1 .status":               unexempted,
	"kyverno.io_policyexceptions.yaml version \"v2beta1\"":           unexempted,
	"policies.kyverno.io_policyexceptions.yaml v1 .status":           unexempted,
	"policies.kyverno.io_policyexceptions.yaml version \"v1\"":       unexempted,
	"policies.kyverno.io_policyexceptions.yaml v1beta1 .status":      unexempted,
	"policies.kyverno.io_policyexceptions.yaml version \"v1beta1\"":  unexempted,
	"policies.kyverno.io_policyexceptions.yaml v1alpha1 .status":     unexempted,
	"policies.kyverno.io_policyexceptions.yaml version \"v1alpha1\"": unexempted,
	"kyverno.io_updaterequests.yaml v2 .status.observedGeneration":   "a repetition of the work raises the generation, and its state says which one it is about",
}

// longer reports whether a difference is only that one of our lists of versions of Pod Security goes on after the reference's: new versions of
// Kubernetes have new ones.
func longer(name, line string) bool {
	field, lists, ok := strings.Cut(line, ": enum is ")
	if !ok || !strings.HasPrefix(name, "kyverno.io_") || !strings.HasSuffix(field, "validate.podSecurity.version") {
		return false
	}
	ours, theirs, ok := strings.Cut(lists, ", the reference has ")
	return ok && strings.HasPrefix(ours, strings.TrimSuffix(theirs, "]"))
}

const scanned = "what scans leave out is never silent"

const unexempted = "an exception that cannot be evaluated says so"

const exceeded = "a policy that uses up its budget says so"

// referenceFolder is where EPHOR_REFERENCE points, by default ../shared/reference; both are meant from the root of the
// repository. The test is skipped when the conformance data are switched off.
func referenceFolder(t *testing.T) string {
	t.Helper()
	if os.Getenv("EPHOR_CONFORMANCE") == "none" {
		t.Skip("EPHOR_CONFORMANCE=none: the reference schemas are not compared")
	}
	folder := os.Getenv("EPHOR_REFERENCE")
	if folder == "" {
		folder = filepath.Join("..", "shared", "reference")
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join("..", "..", folder)
	}
	if _, err := os.Stat(filepath.Join(folder, "crds")); err != nil {
		t.Fatalf("there is no folder %s with the reference CRDs: set EPHOR_REFERENCE to the folder that holds crds/, "+
			"or EPHOR_CONFORMANCE=none to run without the data", filepath.Join(folder, "crds"))
	}
	return folder
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func decode(t *testing.T, content []byte) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// differences between two definitions, one line each.
type differences struct {
	lines  []string
	fields int
}

func (d *differences) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *differences) equal(path, what string, want, got any) {
	if !reflect.DeepEqual(want, got) {
		d.add("%s: %s is %s, the reference has %s", path, what, text(got), text(want))
	}
}

func compareDefinitions(want, got map[string]any) *differences {
	d := &differences{}
	wantSpec, gotSpec := object(want["spec"]), object(got["spec"])
	for _, what := range []string{"group", "names", "scope"} {
		d.equal("spec", what, wantSpec[what], gotSpec[what])
	}
	gotVersions := map[any]map[string]any{}
	for _, v := range list(gotSpec["versions"]) {
		gotVersions[object(v)["name"]] = object(v)
	}
	for _, v := range list(wantSpec["versions"]) {
		wantVersion := object(v)
		name := text(wantVersion["name"])
		gotVersion, ok := gotVersions[wantVersion["name"]]
		if !ok {
			d.add("version %s is missing", name)
			continue
		}
		for _, what := range []string{"served", "storage", "subresources", "additionalPrinterColumns"} {
			d.equal("version "+name, what, wantVersion[what], gotVersion[what])
		}
		schema := func(version map[string]any) map[string]any {
			return object(object(version["schema"])["openAPIV3Schema"])
		}
		d.schema(strings.Trim(name, `"`)+" ", schema(wantVersion), schema(gotVersion))
	}
	return d
}

// schema compares two nodes and all below them. Fields that only we have are differences too: the API server would
// keep what another engine drops.
func (d *differences) schema(path string, want, got map[string]any) {
	d.fields++
	for _, keyword := range keys(want, got) {
		switch keyword {
		case "description":
		case "properties":
			wantFields, gotFields := object(want[keyword]), object(got[keyword])
			for _, field := range keys(wantFields, gotFields) {
				wantField, inWant := wantFields[field]
				gotField, inGot := gotFields[field]
				switch {
				case !inGot:
					d.add("%s.%s is missing", path, field)
				case !inWant:
					d.add("%s.%s is not in the reference", path, field)
				default:
					d.schema(path+"."+field, object(wantField), object(gotField))
				}
			}
		case "items", "additionalProperties":
			wantSchema, wantOK := want[keyword].(map[string]any)
			gotSchema, gotOK := got[keyword].(map[string]any)
			if wantOK && gotOK {
				d.schema(path+"[]", wantSchema, gotSchema)
				continue
			}
			d.equal(path, keyword, want[keyword], got[keyword])
		case "enum", "required", "oneOf":
			d.equal(path, keyword, sorted(want[keyword]), sorted(got[keyword]))
		default: // type, default, format, limits, extensions
			d.equal(path, keyword, want[keyword], got[keyword])
		}
	}
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func keys(a, b map[string]any) []string {
	set := map[string]bool{}
	for k := range a {
		set[k] = true
	}
	for k := range b {
		set[k] = true
	}
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// sorted is a list without its order, as texts.
func sorted(v any) []string {
	var out []string
	for _, element := range list(v) {
		out = append(out, text(element))
	}
	sort.Strings(out)
	return out
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
