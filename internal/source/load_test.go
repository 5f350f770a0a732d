package source

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const object = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: "

func names(objects []Object) (out []string) {
	for _, o := range objects {
		out = append(out, o.Name())
	}
	return out
}

func TestFind(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml": object + "b\n", "a.yml": object + "a\n", "c.json": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}`,
		"package.json": `{"name":"x"}`, "notes.txt": "hello", ".hidden.yaml": object + "hidden\n", "sub/d.yaml": object + "d\n", ".git/e.yaml": object + "e\n",
	})
	t.Chdir(dir)
	for _, c := range []struct {
		paths     []string
		recursive bool
		want      []string
		mistakes  string
	}{
		{[]string{"."}, false, []string{"a", "b", "c"}, ""},
		{[]string{"."}, true, []string{"a", "b", "c", "d"}, ""},
		{[]string{"sub", "a.yml", "./a.yml"}, false, []string{"d", "a"}, ""},
		{[]string{"*.y*ml"}, false, []string{"a", "b"}, ""},
		{[]string{"s*"}, false, []string{"d"}, ""},
		{[]string{".hidden.yaml"}, false, []string{"hidden"}, ""},
		{[]string{"none.yaml", "a.yml"}, false, []string{"a"}, "none.yaml: no such file or directory"},
		{[]string{"none*", "a.yml"}, false, []string{"a"}, "none*: no file matches"},
		{[]string{"[", "a.yml"}, false, []string{"a"}, "[: this is not a valid glob pattern"},
		{[]string{"-", "a.yml"}, false, []string{"a"}, "nothing on standard input"},
		{[]string{"", "a.yml"}, false, []string{"a"}, "a path is empty"},
		{[]string{"notes.txt"}, false, nil, "this is not a Kubernetes object but a text"},
		{[]string{"package.json"}, false, nil, "Object 'Kind' is missing"},
	} {
		objects, diags := Load(c.paths, Options{Recursive: c.recursive})
		if got := names(objects); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.paths, got, c.want)
		}
		if text := diags.Error(); c.mistakes == "" && text != "" || !strings.Contains(text, c.mistakes) {
			t.Errorf("%v: mistakes %q, want %q", c.paths, text, c.mistakes)
		}
	}
	if err := os.Mkdir("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, diags := Load([]string{"empty"}, Options{}); !strings.Contains(diags.Error(), "no manifests in this directory") {
		t.Errorf("an empty directory: %v", diags)
	}
	if err := os.MkdirAll("deep/er", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, diags := Load([]string{"deep"}, Options{}); !strings.Contains(diags.Error(), "name them, as in deep/*/*.yaml") {
		t.Errorf("a directory of directories: %v", diags)
	}
}

func TestStdin(t *testing.T) {
	objects, diags := Load([]string{"-", "-"}, Options{Stdin: strings.NewReader(object + "a\n---\n" + object + "b\n")})
	if got := names(objects); !reflect.DeepEqual(got, []string{"a", "b"}) || len(diags) > 0 {
		t.Errorf("got %v, %v", got, diags)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name, text string
		lines      []int
	}{
		{"nothing", "", nil},
		{"only comments", "# a\n\n---\n# b\n---\n", nil},
		{"leading marker", "---\na: 1\n---\nb: 1\n", []int{2, 4}},
		{"comment before the marker", "# x\n---\na: 1\n", []int{3}},
		{"directive", "%YAML 1.1\n---\na: 1\n---\nb: 1\n", []int{3, 5}},
		{"end marker", "a: 1\n...\n---\nb: 1\n", []int{1, 4}},
		{"content behind the marker", "--- {a: 1}\n--- # c\nb: 1\n", []int{1, 3}},
		{"not a marker", "a: |\n  x\n----: 1\nb: 1\n", []int{1}},
		{"byte order mark", "\uFEFFa: 1\n", []int{1}},
		{"carriage returns", "a: 1\r\n---\r\nb: 1\r\n", []int{1, 3}},
		{"concatenated JSON", "{\"a\": 1}\n{\"b\": \"}\"}{\"c\": 1}", []int{1, 2, 2}},
		{"JSON between markers", "{\"a\": 1}\n---\n{\"b\": 1}\n---\nc: 1\n", []int{1, 3, 5}},
		{"flow style that is not JSON", "{a: '\"'}\n---\nb: 1\n", []int{1, 3}},
		{"an apostrophe in flow style", "{a: it's}\n---\n{\"b\": 1}\n", []int{1, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines []int
			for _, d := range Split("f", c.text) {
				lines = append(lines, d.Line)
				if _, diags := d.Value(Exact); len(diags) > 0 {
					t.Errorf("%q: %v", d.text, diags)
				}
			}
			if !reflect.DeepEqual(lines, c.lines) {
				t.Errorf("documents begin on lines %v, want %v", lines, c.lines)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	text := "a: 1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    a.b/c: x\n    a: {b: y}\ndata:\n- one\n- k:\n    - two\n"
	objects, diags := Split("f.yaml", text)[1].Decode(Exact)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	for path, line := range map[string]int{
		"": 3, "kind": 4, "metadata.annotations": 6, "metadata.annotations.a.b/c": 7, "metadata.annotations.a": 8,
		"metadata.annotations.a.b": 8, "data[0]": 10, "data[1].k[0]": 12, "/data/1/k/0": 12, "data[7]": 9, "data[1].nope.x": 11, "nope": 3,
	} {
		if got := objects[0].Pos(path); got.Line != line || got.File != "f.yaml" {
			t.Errorf("%q is at %v, want line %d", path, got, line)
		}
	}
}

func TestLists(t *testing.T) {
	text := "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n" +
		"- apiVersion: v1\n  kind: PodList\n  items:\n  - metadata: {name: b}\n  - 5\n- kind: Pod\n  metadata: {name: c}\n"
	objects, diags := Split("f", text)[0].Decode(Floats)
	if got := names(objects); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
	if b := objects[1]; b.Kind() != "Pod" || b.Value["apiVersion"] != "v1" || b.Pos("metadata.name").Line != 10 {
		t.Errorf("the Pod of the PodList: %v at %v", b.Value, b.Pos("metadata.name"))
	}
	want := "f:11: this item of the PodList is not an object but a number\nf:12: Object 'apiVersion' is missing (every object begins with apiVersion and kind)"
	if diags.Error() != want {
		t.Errorf("mistakes\n%v\nwant\n%s", diags, want)
	}
	// An object of a custom kind whose name happens to end in List, but has no items, is not split.
	objects, diags = Split("f", "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: x}\n")[0].Decode(Floats)
	if len(objects) != 1 || len(diags) > 0 {
		t.Errorf("got %v, %v", objects, diags)
	}
}

func TestNumbers(t *testing.T) {
	doc := Split("f", "a: 1\nb: 1.5\nc: 9007199254740993\nd: 1.0\ne: 18446744073709551615\nf: 0x1F\ng: 1e3\n")[0]
	exact, _ := doc.Value(Exact)
	want := map[string]any{"a": int64(1), "b": 1.5, "c": int64(9007199254740993), "d": int64(1), "e": 18446744073709551615.0, "f": int64(31), "g": int64(1000)}
	if !reflect.DeepEqual(exact, want) {
		t.Errorf("exact %#v", exact)
	}
	floats, _ := doc.Value(Floats)
	for k, v := range floats.(map[string]any) {
		if _, ok := v.(float64); !ok {
			t.Errorf("%s is a %T", k, v)
		}
	}
	js, _ := Split("f", `{"a": 1, "b": 1.5}`)[0].Value(Floats)
	if !reflect.DeepEqual(js, map[string]any{"a": 1.0, "b": 1.5}) {
		t.Errorf("JSON %#v", js)
	}
}

func TestKeyGivenTwice(t *testing.T) {
	v, diags := Split("f", "a: 1\nb: 2\na: 3\n")[0].Value(Floats)
	if !reflect.DeepEqual(v, map[string]any{"a": 3.0, "b": 2.0}) {
		t.Errorf("got %v", v)
	}
	if diags.HasErrors() || diags.Error() != `f:3: warning: the key "a" is given twice in one mapping (the last one counts; remove the other)` {
		t.Errorf("got %v", diags)
	}
}

// JSON is no exception.
func TestKeyGivenTwiceInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "b": {"c": 1,` + "\n\t" + `"c": 2}}`: `f:2: warning: the key "c" is given twice in one mapping (the last one counts; remove the other)`,
		`{"rules": [1], "rules": []}`:                  `f:1: the key "rules" is given twice in one mapping (write the items as one list)`,
		`{"a": [{"b": 1}, {"b": 1}]}`:                  "",
	} {
		if _, diags := Split("f", text)[0].Value(Exact); len(diags) > 0 != (want != "") || want != "" && diags.Error() != want {
			t.Errorf("%s: got %v", text, diags)
		}
	}
}

func TestListWithoutItems(t *testing.T) {
	for text, want := range map[string]string{
		"items: {kind: Pod}":      `f:3: a List has its objects in the list items, and this one has none (write them below ` + "`items:`" + `, each after a dash)`,
		"item: [{kind: Pod}]":     `f:1: a List has its objects in the list items, and this one has none (write them below ` + "`items:`" + `, each after a dash)`,
		"items:":                  "",
		"metadata: {}\nitems: []": "",
	} {
		objects, diags := Split("f", "apiVersion: v1\nkind: List\n"+text+"\n")[0].Decode(Exact)
		if len(objects) > 0 || len(diags) > 0 != (want != "") || want != "" && diags.Error() != want {
			t.Errorf("%s: got %v", text, diags)
		}
	}
}

func TestNormalise(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"{apiVersion: v1, kind: Pod, metadata: {name: a}}", "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}"},
		{"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ''}}", "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}"},
		{"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}", "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}"},
		{"{apiVersion: v1, kind: Namespace, metadata: {name: a}}", "{apiVersion: v1, kind: Namespace, metadata: {name: a}}"},
		{"{apiVersion: example.com/v1, kind: Namespace, metadata: {name: a}}", "{apiVersion: example.com/v1, kind: Namespace, metadata: {name: a, namespace: default}}"},
		{"{apiVersion: v1, kind: Pod}", "{apiVersion: v1, kind: Pod, metadata: {namespace: default}}"},
		{"{apiVersion: v1, kind: Pod, metadata: 5}", "{apiVersion: v1, kind: Pod, metadata: 5}"},
		{"{apiVersion: v1, kind: Node, metadata: {labels: null, name: null}, spec: [{template: {annotations: null, nodeSelector: null}}]}",
			"{apiVersion: v1, kind: Node, metadata: {labels: {}, name: null}, spec: [{template: {annotations: {}, nodeSelector: {}}}]}"},
	} {
		got, _ := Split("f", c.in)[0].Value(Floats)
		want, _ := Split("f", c.want)[0].Value(Floats)
		Normalise(got.(map[string]any))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %v\nwant %v", c.in, got, want)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	text := "---\n" + strings.Repeat("- apiVersion: v1\n  metadata:\n    labels: {a: b}\n    name: \"web\"\n  spec:\n    containers:\n    - image: nginx:1.2\n      ports:\n      - containerPort: 80\n", 50)
	doc := Split("f", text)[0]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, diags := doc.Value(Floats); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
}

// BenchmarkJSON measures a document in JSON: a list of fifty Pods.
func BenchmarkJSON(b *testing.B) {
	text := "[" + strings.Repeat(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"name":"web"},"spec":{"containers":[{"image":"nginx:1.2","ports":[{"containerPort":80}]}]}},`, 49) + "{}]"
	doc := Split("f", text)[0]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, diags := doc.Value(Floats); diags.HasErrors() {
			b.Fatal(diags)
		}
	}
}
