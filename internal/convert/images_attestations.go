package convert

import (
	"maps"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// statements returns how the signers of an attestation are counted: those who signed such a statement, and of whose statements all satisfy the
// conditions.
func (s *signers) statements(a *kyvernov1.Attestation, name, path string) counter {
	of := "image, attestations." + name + ", "
	signed := func(names string) string { return "verifyAttestationSignatures(" + of + names + ")" }
	if len(a.Conditions) == 0 {
		return counter{count: signed}
	}
	blocks := make([]any, len(a.Conditions))
	for i := range a.Conditions {
		blocks[i] = document(&a.Conditions[i])
	}
	around, image := s.predicate, s.image
	s.predicate, s.image = s.payload(member("statement")), true
	holds := s.conditions(blocks, path+".conditions")
	s.predicate, s.image = around, image
	one := func(attestor string) expr {
		return and(comparison(signed("["+attestor+"]")+" >= 1"), member("extractPayloads("+of+attestor+")").macro("all", "statement", holds))
	}
	return counter{
		count: func(names string) string { return "size(" + names + ".filter(attestor, " + one("attestor").text + "))" },
		one:   one,
	}
}

// payload returns what the variables of conditions on an attestation read: the predicate of an in-toto statement, or a document that refers to the image.
func (s *signers) payload(statement expr) expr {
	if s.notary() {
		return statement
	}
	return statement.field("predicate")
}

// checked returns the validation for the validate block of an entry; nil if there is none. named are the attestations that have names.
func (s *signers) checked(v *kyvernov1.ValidateImageVerification, named map[string]term, path string) map[string]any {
	if v == nil || v.Deny == nil {
		return nil
	}
	entries := s.entries
	s.entries, s.image = maps.Clone(entries), true
	if s.entries == nil {
		s.entries = map[string]term{}
	}
	maps.Copy(s.entries, named)
	denied := yes
	if raw, ok := s.decode(v.Deny.RawAnyAllConditions, path+".deny.conditions"); ok && raw != nil {
		denied = s.denied(raw, path+".deny.conditions")
	}
	of := s.allImages()
	out := map[string]any{"expression": of.macro("all", "image", not(denied)).text}
	s.message(v.Message, path+".message", out)
	if text, ok := out["messageExpression"].(string); ok && strings.Contains(text, "(image") { // the first image that is denied
		out["messageExpression"] = of.macro("filter", "image", denied).macro("map", "image", expr{text, bindsTernary}).text + "[0]"
	}
	s.entries, s.image = entries, false
	return out
}
