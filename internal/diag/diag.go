package diag

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Severity determines whether a diagnostic prevents the use of its object.
type Severity uint8

// Error prevents the use of the object; Warning does not.
const (
	Error Severity = iota
	Warning
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Position is a place in a file. Line and Column count from 1; zero means unknown.
type Position struct {
	File   string
	Line   int
	Column int
}

// String returns file:line, or the known part of it.
func (p Position) String() string {
	switch {
	case p.File == "" && p.Line == 0:
		return ""
	case p.Line == 0:
		return p.File
	case p.File == "":
		return "line " + strconv.Itoa(p.Line)
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// Diagnostic is one mistake: where it is, what is wrong, and how to correct it.
type Diagnostic struct {
	Severity Severity
	Path     string // field path such as spec.rules[0].match; empty for the whole object
	Pos      Position
	Code     Code   // the kind of mistake, for code that has to recognize it; may be empty
	Name     string // the subject of the mistake, such as a field, a variable or a kind; set for the codes whose documentation mentions it
	Summary  string // what is wrong; Kyverno's text verbatim if Kyverno has one
	Plain    string // the summary in plain words where Kyverno's text is hard to read; the command line shows it instead
	Hint     string // how to correct it; may be empty
	// Newer: a newer version of Kubernetes would accept it, which the hint names.
	Newer bool
}

// Text returns what is wrong for readers of the command line.
func (d Diagnostic) Text() string { return cmp.Or(d.Plain, d.Summary) }

// String returns `position: path: text (hint)` without empty parts.
func (d Diagnostic) String() string {
	var b strings.Builder
	if p := d.Pos.String(); p != "" {
		b.WriteString(p + ": ")
	}
	if d.Severity == Warning {
		b.WriteString("warning: ")
	}
	if d.Path != "" {
		b.WriteString(d.Path + ": ")
	}
	b.WriteString(d.Text())
	if d.Hint != "" {
		b.WriteString(" (" + d.Hint + ")")
	}
	return b.String()
}

// List is a collection of diagnostics in the order in which they were found.
type List []Diagnostic

// Errorf adds an error at the field path, with a bounded summary (value.Message), since mistakes quote their author's text.
func (l *List) Errorf(path, format string, args ...any) {
	*l = append(*l, Diagnostic{Severity: Error, Path: path, Summary: value.Message(fmt.Sprintf(format, args...))})
}

// Warnf adds a warning at the field path, with a bounded summary.
func (l *List) Warnf(path, format string, args ...any) {
	*l = append(*l, Diagnostic{Severity: Warning, Path: path, Summary: value.Message(fmt.Sprintf(format, args...))})
}

// Add adds d.
func (l *List) Add(d ...Diagnostic) { *l = append(*l, d...) }

// AddNew adds the diagnostics of d that are not in the list yet.
func (l *List) AddNew(d ...Diagnostic) {
	for _, one := range d {
		if !slices.ContainsFunc(*l, func(known Diagnostic) bool {
			return known.Severity == one.Severity && known.Path == one.Path && known.Summary == one.Summary
		}) {
			l.Add(one)
		}
	}
}

// Hint sets the hint of the last diagnostic.
func (l List) Hint(format string, args ...any) {
	if len(l) > 0 {
		l[len(l)-1].Hint = value.Message(fmt.Sprintf(format, args...))
	}
}

// Plain sets the plain text of the last diagnostic.
func (l List) Plain(format string, args ...any) {
	if len(l) > 0 {
		l[len(l)-1].Plain = value.Message(fmt.Sprintf(format, args...))
	}
}

// Code sets the code of the last diagnostic, and its Name if the code has one.
func (l List) Code(c Code, name ...string) {
	if len(l) > 0 {
		l[len(l)-1].Code = c
		if len(name) > 0 {
			l[len(l)-1].Name = name[0]
		}
	}
}

// Has reports whether any diagnostic has one of the codes.
func (l List) Has(codes ...Code) bool {
	for _, d := range l {
		if d.Code != "" && slices.Contains(codes, d.Code) {
			return true
		}
	}
	return false
}

// HasErrors reports whether any diagnostic is an error.
func (l List) HasErrors() bool {
	for _, d := range l {
		if d.Severity == Error {
			return true
		}
	}
	return false
}

// Errors returns the diagnostics of severity Error; Warnings returns the others.
func (l List) Errors() List   { return l.filter(Error) }
func (l List) Warnings() List { return l.filter(Warning) }

func (l List) filter(s Severity) List {
	var out List
	for _, d := range l {
		if d.Severity == s {
			out = append(out, d)
		}
	}
	return out
}

// Sort sorts the list by position, and keeps the order of diagnostics at the same place.
func (l List) Sort() {
	sort.SliceStable(l, func(i, j int) bool {
		a, b := l[i].Pos, l[j].Pos
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
}

// Error joins all diagnostics, one per line.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i, d := range l {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Err returns l as an error if it holds errors, else nil.
func (l List) Err() error {
	if !l.HasErrors() {
		return nil
	}
	return l
}
