package compiler_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/value"
)

var update = flag.Bool("update", false, "rewrite testdata")

// TestReads runs testdata/reads.txt: it checks which parts of the documents expressions read, and that objects with only
// these parts have the same results.
func TestReads(t *testing.T) {
	const file = "testdata/reads.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var variables [][2]string
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		switch variable, isVariable := strings.CutPrefix(line, "v: "); {
		case strings.HasPrefix(line, "    "):
			continue
		case isVariable:
			name, expression, _ := strings.Cut(variable, " = ")
			variables = append(variables, [2]string{name, expression})
			fmt.Fprintln(&got, line)
		case line == "", strings.HasPrefix(line, "#"):
			fmt.Fprintln(&got, line)
		default:
			fmt.Fprintf(&got, "%s\n    %s\n", line, readsOf(t, variables, line))
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() != string(text) {
		t.Errorf("%s differs; -update rewrites it. Now:\n%s", file, got.String())
	}
}

// objects are the documents on which the test evaluates its expressions, both complete and with only the parts that they read.
var objects = []string{
	`{"kind":"Pod","metadata":{"name":"a","labels":{"app":"x","other":"y"}},"spec":{"replicas":3,"securityContext":{},"containers":[{"name":"a","image":"nginx:1","securityContext":{"privileged":true,"x":1}},{"name":"b","image":"a","ports":[1]}],"initContainers":[{"name":"i"}]}}`,
	`{"kind":"Deployment","metadata":{"name":"b","labels":{"app":"z"}},"spec":{"replicas":1,"template":{"metadata":{},"spec":{"containers":[{"name":"a","image":"nginx:1","securityContext":{}}]}}}}`,
	`{"kind":"Pod","metadata":{"name":"c","labels":["app"]},"spec":{"containers":{"a":{"name":"a","image":"b"},"b":{"name":"x","image":"y"}}}}`,
	`{"kind":"Pod","metadata":"none","spec":{"replicas":"3","containers":"text","nothing":{"there":1,"here":2}}}`,
	`{"kind":"Pod"}`,
}

func readsOf(t *testing.T, variables [][2]string, expression string) string {
	t.Helper()
	c := compiler.New(env.Declarations{})
	for _, v := range variables {
		must(t, c.Variable(v[0], v[1]))
	}
	x, err := c.Compile(expression, typecheck.Bool)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	reads := c.Reads()
	for _, text := range objects {
		evaluate := func(fields *value.Fields) string {
			object, err := value.NewReader(text).AnyOf(fields)
			must(t, err)
			ok, err := evaluation(t, c, &run.Input{Object: object, OldObject: object}).Bool(x)
			return fmt.Sprint(ok, err)
		}
		object := &value.Fields{}
		for _, name := range []string{"object", "oldObject"} {
			if f := reads.Get(name); f != nil {
				object.Merge(f)
			}
		}
		object.Member("apiVersion") // as for every rule, since a value without named members is decoded completely
		if whole, part := evaluate(nil), evaluate(object); whole != part {
			t.Errorf("%s on %s: %s, with only %s: %s", expression, text, whole, object, part)
		}
	}
	return reads.String()
}
