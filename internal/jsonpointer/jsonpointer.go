package jsonpointer

import "strings"

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// Escape returns the token for a key or an index: ~ becomes ~0, and / becomes ~1.
func Escape(key string) string { return escape.Replace(key) }

// Unescape returns the key for a token. A ~ that does not start an escape sequence stays as it is.
func Unescape(token string) string { return unescape.Replace(token) }

// Split returns the unescaped keys of a pointer. The slash at its start may be missing; the empty pointer has one empty key.
func Split(pointer string) []string {
	keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, token := range keys {
		keys[i] = Unescape(token)
	}
	return keys
}
