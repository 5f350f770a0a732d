package pattern

import (
	"testing"

	"github.com/ephor-dev/ephor/internal/value"
)

func TestReadsManagedFields(t *testing.T) {
	for pattern, want := range map[string]bool{
		`{"spec":{"*":"?*"}}`: false,
		`{"metadata":{"labels":{"*":"?*","{{request.operation}}":"x"}}}`: false,
		`{"^(metadata)":{"=(annotations)":{"a":"b"}},"spec":{}}`:         false,
		`"?*"`: false,
		`{"metadata":{"managedFields":[{"manager":"helm"}]}}`:     true,
		`{"metadata":{"X(managedFields)":"null"}}`:                true,
		`{"metadata":{"managed*":"?*"}}`:                          true,
		`{"=(metadata)":{"{{ element }}":"?*"}}`:                  true,
		`{"metadata":"{{ request.object.metadata }}"}`:            true,
		`{"met*":{"name":"a"}}`:                                   true,
		`{"{{ request.object.spec.kind }}":{"managedFields":[]}}`: true,
		`"{{ request.object }}"`:                                  true,
		`[{"metadata":{}}]`:                                       true,
	} {
		v, err := value.DecodeJSON([]byte(pattern))
		if err != nil {
			t.Fatal(err)
		}
		if got := ReadsManagedFields(v); got != want {
			t.Errorf("%s: %v", pattern, got)
		}
	}
}
