package patch

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := value.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func pod(spec string) string { return `{"apiVersion":"v1","kind":"Pod","spec":{` + spec + `}}` }

// Every row of the table of merge rules, and corner cases of Kyverno's library.
func TestMerge(t *testing.T) {
	for _, c := range []struct{ name, target, patch, want string }{
		{"maps merge, null deletes", `{"a":{"b":1,"c":2}}`, `{"a":{"c":null,"d":3}}`, `{"a":{"b":1,"d":3}}`},
		{"missing parents are created, without nulls", `{}`, `{"a":{"b":{"c":1,"d":null}}}`, `{"a":{"b":{"c":1}}}`},
		{"nulls of the target stay", `{"a":null}`, `{"b":1}`, `{"a":null,"b":1}`},
		{"new elements of a keyed list are prepended", pod(`"containers":[{"name":"a"}]`), `{"spec":{"containers":[{"name":"b"},{"name":"a","image":"x"}]}}`,
			pod(`"containers":[{"name":"b"},{"name":"a","image":"x"}]`)},
		{"elements keep the patch's order", pod(`"containers":[{"name":"a"},{"name":"b"}]`), `{"spec":{"containers":[{"name":"b","image":"x"}]}}`,
			pod(`"containers":[{"name":"b","image":"x"},{"name":"a"}]`)},
		{"ports merge by containerPort and protocol", pod(`"containers":[{"name":"a","ports":[{"containerPort":80,"protocol":"TCP"}]}]`),
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"protocol":"UDP"},{"containerPort":80,"protocol":"TCP","name":"web"}]}]}}`,
			pod(`"containers":[{"name":"a","ports":[{"containerPort":80,"protocol":"UDP"},{"containerPort":80,"protocol":"TCP","name":"web"}]}]`)},
		{"a port without protocol is taken for the one with it and adds nothing", pod(`"containers":[{"name":"a","ports":[{"containerPort":80,"protocol":"TCP"}]}]`),
			`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"web"}]}]}}`,
			pod(`"containers":[{"name":"a","ports":[{"containerPort":80,"protocol":"TCP"}]}]`)},
		{"lists without merge key are replaced", pod(`"tolerations":[{"key":"a"}]`), `{"spec":{"tolerations":[{"key":"b"}]}}`, pod(`"tolerations":[{"key":"b"}]`)},
		{"lists of scalars are replaced", pod(`"containers":[{"name":"a","args":["x","y"]}]`), `{"spec":{"containers":[{"name":"a","args":["z"]}]}}`,
			pod(`"containers":[{"name":"a","args":["z"]}]`)},
		{"finalizers are united, new ones first", `{"apiVersion":"v1","kind":"Pod","metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"finalizers":["c","b"]}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"finalizers":["c","b","a"]}}`},
		{"lists of unknown kinds are replaced", `{"apiVersion":"x.io/v1","kind":"X","spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"b"}]}}`,
			`{"apiVersion":"x.io/v1","kind":"X","spec":{"containers":[{"name":"b"}]}}`},
		{"an object inside an unknown kind is known by its own kind", `{"apiVersion":"x.io/v1","kind":"X","template":` + pod(`"containers":[{"name":"a"}]`) + `}`,
			`{"template":{"spec":{"containers":[{"name":"b"}]}}}`,
			`{"apiVersion":"x.io/v1","kind":"X","template":` + pod(`"containers":[{"name":"b"},{"name":"a"}]`) + `}`},
		{"empty list and empty text are written", pod(`"containers":[{"name":"a","args":["x"],"image":"y"}]`), `{"spec":{"containers":[{"name":"a","args":[],"image":""}]}}`,
			pod(`"containers":[{"name":"a","args":[],"image":""}]`)},
		{"$patch: delete removes a map", `{"a":{"b":1},"c":2}`, `{"a":{"$patch":"delete"}}`, `{"c":2}`},
		{"$patch: replace replaces a map", `{"a":{"b":1}}`, `{"a":{"$patch":"replace","d":1}}`, `{"a":{"d":1}}`},
		{"$patch: merge is the default", `{"a":{"b":1}}`, `{"a":{"$patch":"merge","d":1}}`, `{"a":{"b":1,"d":1}}`},
		{"$patch: delete removes an element", pod(`"containers":[{"name":"a"},{"name":"b"}]`), `{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`,
			pod(`"containers":[{"name":"b"}]`)},
		{"$patch: replace replaces a list", pod(`"containers":[{"name":"a"}]`), `{"spec":{"containers":[{"$patch":"replace"},{"name":"b"}]}}`,
			pod(`"containers":[{"name":"b"}]`)},
		{"$patch: delete removes a list", pod(`"containers":[{"name":"a"}]`), `{"spec":{"containers":[{"$patch":"delete"}]}}`, pod(``)},
		{"a patch element without the key empties the list", pod(`"containers":[{"name":"a"}]`), `{"spec":{"containers":[{"image":"x"}]}}`, pod(`"containers":[]`)},
		{"an element of the target without the key stays alone", pod(`"containers":[{"name":"a"},{"image":"x"}]`), `{"spec":{"containers":[{"name":"a"}]}}`,
			pod(`"containers":[{"image":"x"}]`)},
		{"of doubled keys the last stays, also where nothing is patched", pod(`"containers":[{"name":"a","image":"1"},{"name":"a","image":"2"}]`), `{}`,
			pod(`"containers":[{"name":"a","image":"2"}]`)},
		{"empty elements are dropped", pod(`"imagePullSecrets":[{"name":"a"},{}]`), `{}`, pod(`"imagePullSecrets":[{"name":"a"}]`)},
		{"a text that is replaced by a scalar stays a text", `{"a":"true","b":"x","c":1}`, `{"a":false,"b":5,"c":"7"}`, `{"a":"false","b":"5","c":"7"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, patch := decode(t, c.target), decode(t, c.patch)
			got, err := (*Merges)(nil).merge(nil, target, patch)
			if err != nil || !value.Equal(got, decode(t, c.want)) {
				t.Errorf("\n got %s, %v\nwant %s", value.JSON(got), err, c.want)
			}
			if value.JSON(target) != value.JSON(decode(t, c.target)) || value.JSON(patch) != value.JSON(decode(t, c.patch)) {
				t.Error("an input was modified")
			}
		})
	}
}

func TestMergeErrors(t *testing.T) {
	for _, c := range []struct{ target, patch, want string }{
		{`{"a":"x"}`, `{"a":{"b":1,"c":[true,null]}}`, "wrong node kind: expected ScalarNode but got MappingNode: node contents:\n{\"b\": 1, \"c\": [true, null]}\n"},
		{`{"a":{"b":1}}`, `{"a":["x"]}`, "wrong node kind: expected MappingNode but got SequenceNode: node contents:\n[\"x\"]\n"},
		{`{"a":{"b":1}}`, `{"a":{"$patch":"move"}}`, "unknown patch strategy 'move'"},
		{pod(`"containers":["x"]`), `{}`, "wrong node kind: expected MappingNode but got ScalarNode: node contents:\n\"x\"\n"},
	} {
		if got, err := (*Merges)(nil).merge(nil, decode(t, c.target), decode(t, c.patch)); err == nil || err.Error() != c.want {
			t.Errorf("%s and %s: %s, %v", c.target, c.patch, value.JSON(got), err)
		}
	}
}

// Parts that a patch does not touch are shared with the target, so that a small patch of a large object costs little.
func TestMergeShares(t *testing.T) {
	target := decode(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`).(map[string]any)
	got, err := (*Merges)(nil).merge(nil, target, decode(t, `{"metadata":{"labels":{"c":"d"}}}`))
	if err != nil || !same(got.(map[string]any)["spec"], target["spec"]) {
		t.Errorf("spec was copied: %v", err)
	}
	if got, err := (*Merges)(nil).merge(nil, target, decode(t, `{"metadata":{"labels":{"a":"b"}}}`)); err != nil || !same(got, target) {
		t.Errorf("a patch without effect copied the object: %v", err)
	}
}

// The table is only read at its first use, and contains the lists that the merge rules name.
func TestMergeKeys(t *testing.T) {
	for path, want := range map[string]string{
		"v1/Pod spec containers": "name", "v1/Pod spec volumes": "name", "v1/Service spec ports": "port protocol",
		"apps/v1/Deployment spec template spec initContainers": "name", "batch/v1/CronJob spec jobTemplate spec template spec imagePullSecrets": "name",
		"v1/Pod metadata ownerReferences": "uid", "v1/Pod metadata finalizers": "", "v1/Pod spec topologySpreadConstraints": "topologyKey whenUnsatisfiable",
	} {
		steps := strings.Fields(path)
		s := kindSchemas()[steps[0]]
		for _, step := range steps[1:] {
			s = s.field(step)
		}
		if s == nil || !s.merged || strings.Join(s.keys, " ") != want {
			t.Errorf("%s: %+v", path, s)
		}
	}
	for _, path := range []string{"v1/Pod spec tolerations", "v1/Pod spec nodeSelector"} {
		steps := strings.Fields(path)
		s := kindSchemas()[steps[0]].field(steps[1]).field(steps[2])
		if s != nil && s.merged {
			t.Errorf("%s is merged", path)
		}
	}
}
