package source

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// read reads a document as YAML, whatever its form.
func read(text string, n Numbers) (any, error) {
	root, err := nodes(text)
	if err != nil || root == nil {
		return nil, err
	}
	b := &builder{numbers: n}
	v, err := b.build(root, 0)
	if err == nil && len(b.diags) > 0 {
		return v, b.diags
	}
	return v, err
}

var samples = []string{
	"a: 1\nb: two\nc:\n  d: [x, 'y', \"z\"]\n  e: {f: 1, g: null}\n",
	"---\n# comment\na:\n- b\n- c: 1\n  d: 2\n-\n  - x\n  - - y\n    - z\n- {}\n- []\nlast: ~\n",
	"a: |\n  one\n    two\n\n  three\nb: |-\n  x\n\nc: |+\n  y\n\nd: e\n",
	"yes: no\non: off\n1: 2\n1.5: 0x10\n0777: 1e3\n2001-01-01: 2001-01-01\n.5: -.5\n-1: +1\n",
	"a: 'it''s' # why\nb: \"x\\ty\" # z\nc: d # e\nf: g#h\ni: j:k\n\"l\": m\n'n o': p\n",
	"a:\n\n# c\n  b:\n# d\n    c: 1\n\n",
	"k: 10.0.0.1:80\nl: 5m\nm: 1_000\nn: 1:30\no: 0b11\np: 1e1000\nq: 123456789012345678901\nr: -5\ns: - \n",
	"a: b\n c: d\n", "a: b\n  c\n", "a: *x\n", "a: &x 1\nb: *x\n", "a: !!str 1\n", "? a\n: b\n", "a: >\n  b\n",
	"a: 1\na: 2\n", "- a\n- b\n", "a\n", "", "a: [b, c\n", "{\"a\": 1}\n", "a: {b: c, d: [e]}\n", "a: \"b\n", "\ta: b\n",
	"a: b\t# c\n", "a:\tb\n", "a: |\n b\n  c\n d", "a: |\n\n\n  b\n", "a: |\n   \n  b\n", "a: ''\nb: \"\"\n", "a: é\nb: \u2028\n",
	"a: b:\n", "a: b: c\n", "- - a\n  - b\n- c: d\n- e:\n  - f\n", "<<: {a: b}\nc: d\n", "a: [b: c]\n", "a: [,]\n", "a: {b}\n",
	"a: @b\n", "a: %b\n", "a: b\n...\n", "%YAML 1.1\n---\na: b\n", "--- \na: b\n", "--- a: b\n", "a: #b\n  c: d\n", "a: - b\n", "-a: b\n", "-\n", "a:\n-\n", "a:\n- \n  b: c\n",
	"x: |\n  a\n # c\ny: 1\n", "x: |\n  a\n #c\n b\n", "a: {? b}\n", "a: [ ]\nb: { }\n", "a: [x ,y ]\n", "a : b\n", "a: null\nnull: b\n",
}

// Values are those of the library that Kyverno's command line uses.
func TestValuesLikeTheReference(t *testing.T) {
	for _, s := range samples {
		likeReference(t, s)
	}
}

func likeReference(t *testing.T, s string) {
	t.Helper()
	var want any
	j, err := yaml.YAMLToJSON([]byte(s))
	if err == nil {
		err = json.Unmarshal(j, &want)
	}
	if err != nil {
		return // texts that Kyverno rejects are tested by their error
	}
	got, err := read(s, Floats)
	if _, warnings := err.(interface{ HasErrors() bool }); err != nil && !warnings {
		t.Errorf("%q: %v, the reference reads %#v", s, err, want)
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q:\ngot  %#v\nwant %#v", s, got, want)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range Split("f", s) {
			d.Decode(Floats)
			d.Decode(Exact)
		}
	})
}

// The manifests in the shared data, if available, decode as in Kyverno.
func TestManifests(t *testing.T) {
	dir := os.Getenv("EPHOR_CONFORMANCE")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("EPHOR_CONFORMANCE names no data folder: ", err)
	}
	inputs, _ := Find([]string{filepath.Join(dir, "policies"), filepath.Join(dir, "differential")}, Options{Recursive: true})
	for i, in := range inputs {
		if i%5 != 0 { // enough to cover every style, even under the race detector
			continue
		}
		docs, _ := Open(in)
		for _, d := range docs {
			if !d.json && !strings.Contains(d.text, "<<") {
				likeReference(t, d.text)
			}
		}
	}
}
