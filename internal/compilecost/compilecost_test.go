package compilecost_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"ephor.invalid/ephor/internal/compilecost"
)

// expensive are regular expressions of the forms that take the most memory for their size.
var expensive = map[string]string{
	"literal":             strings.Repeat("abcdefgh", 1000),
	"optional repetition": strings.Repeat("[ab]{0,990}", 8),
	"exact repetition":    strings.Repeat("a{1000}", 8),
	"nested repetition":   "((a{0,10}){0,10}){0,10}",
	"repeated text":       "(?i)(?:kkkkkkkkkkkkkkkkkkkk){1000}",
	"repeated nothing":    "(?:(?:|a){0,30}){0,30}",
	"Unicode classes":     strings.Repeat(`\pL`, 200),
	"excluded classes":    strings.Repeat(`[^\pL\pN]`, 200),
	"classes in one":      `[` + strings.Repeat(`\PC`, 200) + `]`,
	"repeated class":      `\pL{1000}`,
	"wide ranges":         `(?i)[` + strings.Repeat(`\x{42}-\x{1E942}`, 8) + `]`,
	"wide written ranges": "(?i)" + strings.Repeat("[B-𞥂]", 8),
	"alternatives":        strings.Repeat("a|b|c|ab|ac|", 500) + "d",
	"optional parts":      strings.Repeat("a?", 4000),
	"groups":              strings.Repeat("()", 4000),
	"nested groups":       strings.Repeat("(", 900) + "a" + strings.Repeat(")", 900),
	"anchors":             strings.Repeat("^", 8000),
	"empty alternatives":  strings.Repeat("|", 4000),
	"one pass":            strings.Repeat(`(?:[a-c]x|[d-f]y|[g-z]z)`, 80),
	"a DNS name":          `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`,
}

// TestEstimates: no regular expression takes more memory than its estimate.
func TestEstimates(t *testing.T) {
	if raceDetector {
		t.Skip("memory is measured without the race detector: the gate runs this test once more")
	}
	for name, text := range expensive {
		t.Run(name, func(t *testing.T) {
			size, err := compilecost.Regex(text)
			if err != nil {
				t.Fatal(err)
			}
			const spare = 32 << 10 // the runtime's own
			var before, compiled, kept runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			re := regexp.MustCompile(text)
			runtime.ReadMemStats(&compiled)
			runtime.GC()
			runtime.ReadMemStats(&kept)
			if n := int64(compiled.TotalAlloc - before.TotalAlloc); n > size.Peak+spare {
				t.Errorf("%d bytes were allocated, %d estimated", n, size.Peak)
			}
			if n := int64(kept.HeapAlloc) - int64(before.HeapAlloc); n > size.Held+spare {
				t.Errorf("%d bytes are kept, %d estimated", n, size.Held)
			}
			runtime.KeepAlive(re)
		})
	}
}

// TestBounds: regular expressions beyond the bounds are recognized, and those that people write are far below them.
func TestBounds(t *testing.T) {
	for name, text := range map[string]string{
		"repetitions": strings.Repeat("[ab]{0,990}", 300),
		"classes":     strings.Repeat(`\pL`, 700),
		"ranges":      `(?i)[` + strings.Repeat(`\x{42}-\x{1E942}`, 101) + `]`,
		"text":        strings.Repeat("a", 70_000),
	} {
		size, err := compilecost.Regex(text)
		var over *compilecost.Error
		if err != nil || !errors.As(size.Check(), &over) {
			t.Errorf("%s: %v, %+v", name, err, size)
		}
	}
	size, err := compilecost.Regex(expensive["a DNS name"])
	if err != nil || size.Peak > compilecost.MaxExpressionBytes/50 || size.Held > compilecost.MaxPolicyBytes/500 {
		t.Errorf("%v: %+v", err, size)
	}
	if _, err := compilecost.Regex("a("); err == nil {
		t.Error("an invalid expression has a size")
	}
}

// TestAllowance: what costs too much is not charged, so that the rest of the policy compiles.
func TestAllowance(t *testing.T) {
	a := &compilecost.Allowance{}
	small, large := compilecost.Cost{Held: 1 << 20}, compilecost.Cost{Held: compilecost.MaxPolicyBytes}
	if a.Charge(small) != nil || a.Charge(large) == nil || !a.Exceeded() || a.Charge(small) != nil || a.Held() != 2<<20 {
		t.Errorf("%+v", a)
	}
	limited := &compilecost.Allowance{Namespace: "a", Left: 1 << 20}
	if limited.Charge(small) != nil || limited.Charge(small) == nil || !limited.Crowded() {
		t.Errorf("%+v", limited)
	}
	var none *compilecost.Allowance
	if none.Charge(large) != nil || none.Charge(compilecost.Cost{Peak: compilecost.MaxExpressionBytes + 1}) == nil {
		t.Error("without an Allowance, only single expressions are bounded")
	}
	if err := (&compilecost.Allowance{}).CEL(strings.Repeat("1+", 8000) + "1"); err == nil {
		t.Error("16,000 tokens of CEL are parsed")
	}
	if err := (&compilecost.Allowance{}).CEL("object.spec.containers.all(c, c.image.startsWith('" + strings.Repeat("x", 50_000) + "'))"); err != nil {
		t.Error(err)
	}
	many := &compilecost.Allowance{}
	for i := range 1001 {
		if err := many.CEL(fmt.Sprint(i)); (err != nil) != (i == 1000) {
			t.Fatal(i, err)
		}
	}
}

func FuzzRegex(f *testing.F) {
	for _, text := range expensive {
		if len(text) < 200 {
			f.Add(text)
		}
	}
	f.Add("|s||s|_|||||||||||||<|")
	f.Fuzz(func(t *testing.T, text string) {
		size, err := compilecost.Regex(text)
		if err != nil || size.Check() != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = regexp.Compile(text)
		runtime.ReadMemStats(&after)
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > size.Peak+64<<10 {
			t.Errorf("%d bytes were allocated, %d estimated", n, size.Peak)
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		const around = 4 // the beginning and the end of a program, and the group of the whole match
		if n := len(program.Inst); n > size.Program+around {
			t.Errorf("%d instructions, %d estimated", n, size.Program)
		}
		if n := program.NumCap/2 - 1; n > size.Groups {
			t.Errorf("%d groups, %d estimated", n, size.Groups)
		}
		searched(t, text, "aabbaab ab-b\naé", &size)
	})
}

// searched compares the charge for finding all matches with what the engine reads: a search of its own for each match, on the rest of the
// text.
func searched(t *testing.T, expression, text string, size *compilecost.Regular) {
	t.Helper()
	re := regexp.MustCompile(expression)
	matches := re.FindAllStringIndex(text, -1)
	most, charged := int64(0), int64(0)
	for i := range len(matches) + 1 {
		at := 0
		if i > 0 {
			at = matches[i-1][1]
		}
		r := &counter{text: text[at:]}
		re.FindReaderIndex(r)
		most += int64(r.read) * int64(size.Program) / 4
	}
	found, err := size.FindAll(re, text, -1, false, func(n int64) error { charged += n; return nil })
	if err != nil || found < len(matches) || charged < most {
		t.Errorf("%q: charged %d steps for %d matches; at least %d for %d: %v", expression, charged, found, most, len(matches), err)
	}
	if found != len(matches) && found != len(text)+1 && found != 1 { // it searched itself
		t.Errorf("%q: found %d matches, there are %d", expression, found, len(matches))
	}
	stop := errors.New("stop")
	if _, err := size.FindAll(re, text, -1, false, func(int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%q: the error of the charge is lost: %v", expression, err)
	}
}

// counter counts the bytes that are read.
type counter struct {
	text string
	read int
}

func (c *counter) ReadRune() (rune, int, error) {
	if c.text == "" {
		return 0, 0, io.EOF
	}
	r, n := utf8.DecodeRuneInString(c.text)
	c.text, c.read = c.text[n:], c.read+n
	return r, n, nil
}

// TestT16FindAll: the charge covers all searches, of texts that are long enough to be read in advance, too.
func TestT16FindAll(t *testing.T) {
	for _, expression := range []string{"a", "a*", "a*b|a", "(?:a|a*c)", "^a", "a$", `\ba`, "", "b", "(a)|(b)", "[^a]*", "(?m)^a", "é|a+?", `\b`, `\Ba|a\b`, `(?i)^a|B$`, `\b[a-z]+\b`} {
		size, err := compilecost.Regex(expression)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"", "a", "é", strings.Repeat("a b ", 500), strings.Repeat("ab\n", 50), strings.Repeat("aé", 1000), strings.Repeat("a", 3000)} {
			searched(t, expression, text, &size)
		}
	}
}
