package loader

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
)

// urlPath is an API path whose variables are escaped: each stays within one segment of the path, or one value of the query. A urlPath that
// consists of a single variable may hold several segments if the policy's author wrote the value.
type urlPath struct {
	text  *template.Text
	query []bool // for each piece: it follows the question mark
	alone []bool // for each piece: it is a whole segment
	whole bool   // the path is a single variable
}

func (c *compiled) urlPath(source, path string) *urlPath {
	u := &urlPath{text: template.CompileText(source, template.Options{Allowance: c.allowance})}
	c.diags.Add(at(path, u.text.Template)...)
	c.reads.Add(u.text.Template)
	pieces := u.text.Pieces()
	u.query, u.alone = make([]bool, len(pieces)), make([]bool, len(pieces))
	u.whole = len(pieces) == 1 && pieces[0] == ""
	inQuery := false
	for i, literal := range pieces {
		u.query[i] = inQuery
		inQuery = inQuery || strings.Contains(literal, "?")
		u.alone[i] = literal == "" && (i == 0 || strings.HasSuffix(pieces[i-1], "/")) &&
			(i+1 == len(pieces) || strings.HasPrefix(pieces[i+1], "/") || strings.HasPrefix(pieces[i+1], "?"))
	}
	return u
}

// static returns the path as the author wrote it; ok is false when it has variables.
func (u *urlPath) static() (text string, ok bool) {
	v, ok := u.text.Static()
	if !ok {
		return "", false
	}
	text, ok = v.(string)
	return text, ok
}

// eval returns the path with its variables escaped. The error names a value that cannot be used: a map, a list, an empty segment, or
// untrusted data that would be the whole path.
func (u *urlPath) eval(env *jmespath.Env, s *scope.Scope) (string, error) {
	return u.text.Join(env, s, func(i int, text string, authored bool) (string, error) {
		switch {
		case u.whole && authored:
			return text, nil
		case u.whole:
			return "", fmt.Errorf("urlPath is a single variable whose value %q comes from data: write the path out, with a variable for each segment", value.Print(text, maxShown))
		case u.query[i]:
			return url.QueryEscape(text), nil
		case u.alone[i] && text == "":
			return "", errors.New("a variable that is a segment of urlPath is empty")
		}
		return url.PathEscape(text), nil
	})
}
