package diag

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Required adds the error that the field at path is not set. why states the field's purpose and may be empty.
func (l *List) Required(path, why string) {
	l.field(Required, path, "Required value", why)
}

// Invalid adds the error that the value of the field at path is not allowed. A text is quoted.
func (l *List) Invalid(path string, got any, why string) {
	l.field(InvalidValue, path, "Invalid value: "+shown(got), why)
}

// Unsupported adds the error that the value of the field at path is not one of the allowed ones.
func (l *List) Unsupported(path, got string, allowed []string) {
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = strconv.Quote(a)
	}
	l.field(UnsupportedValue, path, "Unsupported value: "+shown(got), "supported values: "+strings.Join(quoted, ", "))
}

// Listed returns the values in the order in which the API server lists supported values: sorted by their quoted texts.
func Listed(values []string) []string {
	return slices.SortedFunc(slices.Values(values), func(a, b string) int { return strings.Compare(strconv.Quote(a), strconv.Quote(b)) })
}

// Forbidden adds the error that another field forbids the field at path.
func (l *List) Forbidden(path, why string) { l.field(Forbidden, path, "Forbidden", why) }

// TooLong adds the error that the text of the field at path has more than limit bytes.
func (l *List) TooLong(path string, limit int) {
	l.field(TooLong, path, "Too long", "may not be more than "+strconv.Itoa(limit)+" bytes")
}

// TooMany adds the error that the list at path has n items, more than limit.
func (l *List) TooMany(path string, n, limit int) {
	l.field(TooLong, path, "Too many: "+strconv.Itoa(n), "must have at most "+strconv.Itoa(limit)+" items")
}

// Duplicate adds the error that the field at path repeats an earlier value.
func (l *List) Duplicate(path, got string) {
	l.field(InvalidValue, path, "Duplicate value: "+shown(got), "")
}

// field adds an error whose text begins like the API server's field errors.
func (l *List) field(c Code, path, what, why string) {
	if why != "" {
		what += ": " + why
	}
	l.Errorf(path, "%s", what)
	l.Code(c)
}

func shown(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}
