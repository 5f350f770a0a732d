package report

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"ephor.invalid/ephor/internal/policy"
)

// likeEncoder compares the writer of entries with the encoder on the same entry.
func likeEncoder(t *testing.T, e *Entry) {
	t.Helper()
	w := yamlWriter{known: map[yamlPlace]string{}}
	w.entry(e, 7)
	want, err := yaml.Marshal([]any{deeply(e.result(7))})
	if err != nil {
		t.Fatal(err)
	}
	if string(w.out) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", w.out, want)
	}
}

// deeply sorts the keys of all maps bytewise; the encoder's own order puts x10 after x9.
func deeply(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := sorted(x)
		for i := range out {
			out[i].Value = deeply(out[i].Value)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = deeply(x[i])
		}
		return out
	}
	return v
}

func entryOf(text, key string) *Entry {
	p := &policy.Program{Name: text, Settings: policy.Settings{Category: text, Severity: "high", Scored: len(text)%2 == 0}}
	return &Entry{
		Program: p, Rule: &policy.Rule{Name: text}, Status: policy.StatusFail, Message: text,
		Resource:   &Resource{APIVersion: "apps/v1", Kind: "Deployment", Namespace: text, Name: text, UID: text},
		Properties: map[string]string{key: text},
	}
}

var texts = []string{
	"x", "", "yes", "No", "null", "1", "1.5", "1e3", "2001-01-01", "a b", " a", "a ", "a  b", "a: b", "a #b", "a\nb", "a\nb\n", "\ta", "-", "- a", "'", "it's", "\"", "é", "\u2028",
	"~", "{a}", "[a]", "&a", "*a", "!a", "%a", "@a", "`a`", "a:", ":a", "?", "? a", "true", "a,b", "0x10", "1_000", "<<", "=", ".", "a/b", "ns/name", "...", "---", "\x00", "\xff",
	strings.Repeat("long ", 30), strings.Repeat("x", 120), "validation error: " + strings.Repeat("words and more ", 12) + "rule x failed at path /spec/",
	"validation rule 'x' passed.", strings.Repeat("ab ", 16) + "ab", strings.Repeat("ab ", 17) + "ab",
}

func TestWriterLikeEncoder(t *testing.T) {
	for _, s := range texts {
		for _, k := range []string{"key", "a long key with words in it", "yes", "a: b", "1"} {
			likeEncoder(t, entryOf(s, k))
		}
	}
}

func FuzzWriter(f *testing.F) {
	for _, s := range texts {
		f.Add(s, "key")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		if key == "" || strings.ContainsRune(key, 0) || len(key) > 100 {
			return // a property always has a name
		}
		likeEncoder(t, entryOf(text, key))
	})
}
