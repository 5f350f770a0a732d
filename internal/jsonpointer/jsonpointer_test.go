package jsonpointer

import (
	"slices"
	"testing"
)

func TestEscape(t *testing.T) {
	for key, token := range map[string]string{
		"": "", "a": "a", "a/b": "a~1b", "a~b": "a~0b", "~1": "~01", "/~": "~1~0", "é/": "é~1",
	} {
		if got := Escape(key); got != token {
			t.Errorf("Escape(%q) = %q, want %q", key, got, token)
		}
		if got := Unescape(token); got != key {
			t.Errorf("Unescape(%q) = %q, want %q", token, got, key)
		}
	}
	if got := Unescape("a~b~2~"); got != "a~b~2~" {
		t.Errorf("what is no escape became %q", got)
	}
}

func TestSplit(t *testing.T) {
	for pointer, keys := range map[string][]string{
		"": {""}, "/": {""}, "/a": {"a"}, "a/b": {"a", "b"}, "/a~1b/~01/": {"a/b", "~1", ""},
	} {
		if got := Split(pointer); !slices.Equal(got, keys) {
			t.Errorf("Split(%q) = %q, want %q", pointer, got, keys)
		}
	}
}
