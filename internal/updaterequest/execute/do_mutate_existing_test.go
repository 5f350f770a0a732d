package execute

import (
	"testing"

	"github.com/ephor-dev/ephor/internal/value"
)

func TestChangedIn(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":        {`{"replicas":1,"a":{"b":2}}`, `{"replicas":1,"a":{"b":2}}`, `null`},
		"one of several": {`{"replicas":1,"a":{"b":2}}`, `{"replicas":4,"a":{"b":2}}`, `{"replicas":4}`},
		"deeper":         {`{"a":{"b":2,"c":3}}`, `{"a":{"b":1,"c":3}}`, `{"a":{"b":1}}`},
		"new":            {`null`, `{"replicas":0}`, `{"replicas":0}`},
		"gone":           {`{"a":1,"b":2}`, `{"a":1}`, `null`},
		"a list":         {`{"a":[1,2]}`, `{"a":[2]}`, `{"a":[2]}`},
	} {
		decoded := func(s string) any {
			v, err := value.DecodeJSON([]byte(s))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if got := value.JSON(changedIn(decoded(c.before), decoded(c.after))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
