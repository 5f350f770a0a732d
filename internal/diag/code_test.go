package diag

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// Every constant of type Code is described once, and its text consists of words with hyphens.
func TestCodesAreDescribed(t *testing.T) {
	described := map[Code]bool{}
	for _, c := range Codes() {
		if c.Doc == "" || described[c.Code] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(c.Code)) {
			t.Errorf("%q: no description, a second one, or another form", c.Code)
		}
		described[c.Code] = true
	}
	f, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Code" {
			constants++
			text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if !described[Code(text)] {
				t.Errorf("%s is not described", spec.Names[0].Name)
			}
		}
		return true
	})
	if constants != len(described) {
		t.Errorf("%d constants, %d descriptions", constants, len(described))
	}
}

func TestFieldMistakes(t *testing.T) {
	var l List
	l.Required("a", "")
	l.Required("a", "it is the name")
	l.Invalid("a", 0, "too little")
	l.Invalid("a", `"x"`, "odd")
	l.Unsupported("a", "C", Listed([]string{"B c", "B", "A"}))
	l.Forbidden("a", "b is set")
	l.TooLong("a", 63)
	l.TooMany("a", 65, 64)
	l.Duplicate("a", "x")
	for i, want := range []struct {
		code Code
		text string
	}{
		{Required, `a: Required value`},
		{Required, `a: Required value: it is the name`},
		{InvalidValue, `a: Invalid value: 0: too little`},
		{InvalidValue, `a: Invalid value: "\"x\"": odd`},
		{UnsupportedValue, `a: Unsupported value: "C": supported values: "A", "B c", "B"`},
		{Forbidden, `a: Forbidden: b is set`},
		{TooLong, `a: Too long: may not be more than 63 bytes`},
		{TooLong, `a: Too many: 65: must have at most 64 items`},
		{InvalidValue, `a: Duplicate value: "x"`},
	} {
		if l[i].Code != want.code || l[i].String() != want.text {
			t.Errorf("got %s %s, want %s %s", l[i].Code, l[i], want.code, want.text)
		}
	}
}

func TestHasCode(t *testing.T) {
	var l List
	l.Errorf("a", "no code")
	if l.Has("") || l.Has(Required) {
		t.Error("a diagnostic without a code has none")
	}
	l.Errorf("b", "the field %q is not known", "x")
	l.Code(UnknownField, "x")
	if !l.Has(Required, UnknownField) || l[0].Code != "" || l[1].Name != "x" {
		t.Errorf("%+v", l)
	}
}
