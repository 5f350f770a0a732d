package jmespath

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// The world in which the examples of the documentation run.
type exampleWorld struct{}

func (exampleWorld) Now() time.Time {
	return time.Date(2024, 2, 29, 23, 59, 59, 0, time.FixedZone("", -7*3600))
}
func (exampleWorld) Intn(n int) int { return n / 2 }
func (exampleWorld) LookupHost(_ context.Context, host world.Host) ([]netip.Addr, error) {
	switch string(host) {
	case "example.com":
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	case "internal.example.com":
		return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
	}
	return nil, errors.New("lookup " + string(host) + ": no such host")
}

func exampleEnv() *Env {
	return &Env{World: world.World{Clock: exampleWorld{}, Rand: exampleWorld{}, Names: exampleWorld{}.LookupHost}}
}

func decode(t *testing.T, s string) any {
	t.Helper()
	if s == "" {
		return nil
	}
	v, err := value.DecodeJSON([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestFunctionsAreDocumented(t *testing.T) {
	for _, f := range Functions() {
		t.Run(f.Name, func(t *testing.T) {
			if _, err := os.Stat("fn_" + f.Name + ".go"); err != nil {
				t.Error("every function has a file of its own:", err)
			}
			if f.Doc == "" || len(f.Examples) == 0 || len(f.Returns) == 0 {
				t.Error("every function says what it does, what it returns, and shows it")
			}
			for _, e := range f.Examples {
				if !strings.Contains(e.Expression, f.Name+"(") {
					t.Errorf("%s does not use the function", e.Expression)
				}
				checkExample(t, e)
			}
		})
	}
	files, err := filepath.Glob("fn_*.go")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(Functions()) {
		t.Errorf("%d files fn_*.go for %d functions", len(files), len(Functions()))
	}
}

func checkExample(t *testing.T, e Example) {
	t.Helper()
	expr, err := Compile(e.Expression)
	if err != nil {
		t.Errorf("%s: %v", e.Expression, err)
		return
	}
	got, err := expr.Search(exampleEnv(), decode(t, e.Input))
	switch {
	case e.Error != "":
		if err == nil || err.Error() != e.Error {
			t.Errorf("%s\n got  %s, %v\n want the error %s", e.Expression, value.JSON(got), err, e.Error)
		}
	case err != nil:
		t.Errorf("%s: %v", e.Expression, err)
	case !value.Equal(got, decode(t, e.Result)):
		t.Errorf("%s\n got  %s\n want %s", e.Expression, value.JSON(got), e.Result)
	}
}

// A function that needs the outside world returns an error instead of guessing.
func TestFunctionsWithoutWorld(t *testing.T) {
	for _, expression := range []string{"time_now()", "time_now_utc()", "random('[a-z]')", "is_external_url('https://example.com')", "time_since('', '2021-01-02T15:04:05Z', '')"} {
		for _, env := range []*Env{nil, {}} {
			if v, err := MustCompile(expression).Search(env, nil); !errors.Is(err, world.ErrUnavailable) {
				t.Errorf("%s without a world: %v, %v", expression, v, err)
			}
		}
	}
}

func TestSignature(t *testing.T) {
	for name, want := range map[string]string{
		"lookup": "lookup(object|array, string|number) any", "time_now": "time_now() string", "merge": "merge(object...) object", "add": "add(any, any) any",
	} {
		if got := registry[name].Signature(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
