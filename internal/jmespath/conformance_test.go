package jmespath

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// The recordings were made without name resolution.
type nameless struct{}

func (nameless) LookupHost(_ context.Context, host world.Host) ([]netip.Addr, error) {
	if string(host) == "" {
		return nil, errors.New("lookup : no such host")
	}
	return nil, errors.New("lookup " + string(host) + " on 10.255.255.53:53: no such host")
}

// TestConformance runs the recorded expressions of Kyverno: equal results if it has one, an error if it has one, and no panic where it
// panics.
func TestConformance(t *testing.T) {
	dir := os.Getenv("EPHOR_CONFORMANCE")
	if dir == "" || dir == "none" {
		t.Skip("EPHOR_CONFORMANCE names no folder")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "differential", "jmespath.json"))
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Input any
		Cases []struct {
			Expression, Output, Error string
			Exit                      int
		}
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	env := exampleEnv()
	env.World.Names = nameless{}.LookupHost
	agree, wording := 0, 0
	for _, c := range data.Cases {
		var got any
		expr, err := Compile(c.Expression)
		if err == nil {
			got, err = expr.Search(env, data.Input)
		}
		switch c.Exit {
		case 0:
			// An expression of several lines is echoed before the result.
			output := c.Output[strings.LastIndex(strings.TrimSpace(c.Output), "\n")+1:]
			want, decodeErr := value.DecodeJSONFloat([]byte(output))
			if decodeErr != nil {
				t.Fatal(c.Expression, decodeErr)
			}
			if err != nil || !value.Equal(got, want) && !sameValues(c.Expression, got, want) {
				t.Errorf("%s\n got  %s, %v\n want %s", c.Expression, value.JSON(got), err, output)
				continue
			}
		case 1:
			if err == nil {
				t.Errorf("%s\n got  %s\n want the error %s", c.Expression, value.JSON(got), c.Error)
				continue
			}
			if err.Error() == c.Error {
				wording++
			} else {
				t.Logf("wording: %s\n got  %v\n want %s", c.Expression, err, c.Error)
			}
		}
		agree++
	}
	t.Logf("%d of %d expressions agree; %d errors in the same words", agree, len(data.Cases), wording)
}

// sameValues compares the results of functions whose order is random in Kyverno.
func sameValues(expression string, got, want any) bool {
	a, ok := got.([]any)
	b, ok2 := want.([]any)
	if !ok || !ok2 || len(a) != len(b) || !strings.Contains(expression, "values(") && !strings.Contains(expression, ".*") {
		return false
	}
	text := func(list []any) []string {
		var out []string
		for _, v := range list {
			out = append(out, value.JSON(v))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(text(a), text(b))
}
