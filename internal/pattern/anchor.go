package pattern

// anchorKind is the kind of the anchor around a pattern key.
type anchorKind uint8

const (
	noAnchor  anchorKind = iota
	condition            // (k): the value decides whether the map is evaluated
	equality             // =(k): evaluated if present
	existence            // ^(k): at least one element of the list must match
	negation             // X(k): must be absent
	global               // <(k): the value decides whether the rule applies
	addition             // +(k): only for mutation; an error here
)

// parseKey splits a pattern key into its anchor and the key inside. A key that has no closing parenthesis, or nothing between
// the parentheses, is an ordinary key.
func parseKey(key string) (anchorKind, string) {
	n := len(key)
	if n < 3 || key[n-1] != ')' {
		return noAnchor, key
	}
	if key[0] == '(' {
		return condition, key[1 : n-1]
	}
	if key[1] != '(' || n < 4 {
		return noAnchor, key
	}
	inner := key[2 : n-1]
	switch key[0] {
	case '=':
		return equality, inner
	case '^':
		return existence, inner
	case 'X':
		return negation, inner
	case '<':
		return global, inner
	case '+':
		return addition, inner
	}
	return noAnchor, key
}

// decorate writes key with an anchor of the kind around it; it is the inverse of parseKey.
func decorate(kind anchorKind, key string) string {
	switch kind {
	case condition:
		return "(" + key + ")"
	case equality:
		return "=(" + key + ")"
	case existence:
		return "^(" + key + ")"
	case negation:
		return "X(" + key + ")"
	case global:
		return "<(" + key + ")"
	case addition:
		return "+(" + key + ")"
	}
	return key
}

// inFirstPhase reports whether a key of this kind is evaluated before the ordinary keys of its map.
func (k anchorKind) inFirstPhase() bool {
	return k == condition || k == equality || k == existence || k == negation
}

// Anchor splits a key of a pattern into the sign of its anchor and the key: "(", "=", "^", "X", "<" or "+", and "" without one.
func Anchor(key string) (sign, bare string) {
	kind, bare := parseKey(key)
	if kind == noAnchor {
		return "", bare
	}
	return key[:1], bare
}
