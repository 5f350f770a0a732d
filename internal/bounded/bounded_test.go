package bounded

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		in       io.Reader
		want     string
		exceeded bool
		err      error
	}{
		{in: strings.NewReader(""), want: ""},
		{in: strings.NewReader("abc"), want: "abc"},
		{in: strings.NewReader("abcd"), exceeded: true},
		{in: io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), want: "ab", err: broken},
	} {
		got, err := Read(c.in, 3)
		if string(got) != c.want || Exceeded(err) != c.exceeded || !c.exceeded && !errors.Is(err, c.err) {
			t.Errorf("%q, %v; want %+v", got, err, c)
		}
	}
}
