package imageverify

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/certificate"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/world"
)

// The functions below find mistakes in attestors when a policy is reviewed. Each returns what is wrong; empty for no mistake. They ignore
// texts with variables, which are not known yet.

// pemMark is in every text in PEM.
const pemMark = "-----BEGIN"

// unknownText reports whether a text is known only when the rule is evaluated.
func unknownText(text string) bool { return text == "" || strings.Contains(text, "{{") }

// KeyMistake returns the reason why a key cannot be read: one in PEM, or the address of one.
func KeyMistake(text string) string {
	text = strings.TrimSpace(text)
	switch {
	case unknownText(text):
		return ""
	case strings.Contains(text, pemMark):
		return blocks(text, "public key", func(block *pem.Block) error {
			if block.Type == "RSA PUBLIC KEY" {
				_, err := x509.ParsePKCS1PublicKey(block.Bytes)
				return err
			}
			_, err := x509.ParsePKIXPublicKey(block.Bytes)
			return err
		})
	}
	scheme, _, named := strings.Cut(text, "://")
	switch {
	case !named || scheme == "env" || scheme == "file":
		return "it is neither a public key in PEM nor the address of one: files and variables of the controller are not read"
	case scheme == "gitlab", scheme == "http":
		return "keys are not read from " + scheme + "://"
	}
	return ""
}

// CertificateMistake returns the reason why certificates in PEM, or in base64 of PEM, cannot be read.
func CertificateMistake(text string) string {
	if unknownText(text) {
		return ""
	}
	if !strings.Contains(text, pemMark) {
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err != nil || !strings.Contains(string(decoded), pemMark) {
			return "it is neither a certificate in PEM nor the base64 of one"
		}
		text = string(decoded)
	}
	return blocks(text, "certificate", func(block *pem.Block) error {
		_, err := x509.ParseCertificate(block.Bytes)
		return err
	})
}

// LogKeyMistake returns the reason why the keys of logs cannot be read.
func LogKeyMistake(text string) string {
	switch {
	case unknownText(text):
		return ""
	case !strings.Contains(text, pemMark):
		return "it is no public key in PEM"
	}
	return blocks(text, "public key", func(block *pem.Block) error {
		_, err := x509.ParsePKIXPublicKey(block.Bytes)
		return err
	})
}

// blocks parses a PEM text block by block.
func blocks(text, what string, parse func(*pem.Block) error) string {
	n, rest := 0, []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		n++
		if err := parse(block); err != nil {
			return "a " + what + " cannot be read: " + err.Error()
		}
	}
	if n < strings.Count(text, pemMark) {
		return "a " + what + " is not in PEM"
	}
	return ""
}

// IdentityCost returns an error if a regular expression of the identities costs too much to compile.
func IdentityCost(k *world.KeylessAttestor) error {
	all := append([]world.Identity{{IssuerRegExp: k.IssuerRegExp, SubjectRegExp: k.SubjectRegExp}}, k.Others...)
	for _, id := range all {
		for _, text := range []string{id.IssuerRegExp, id.SubjectRegExp} {
			if size, err := compilecost.Regex(text); err == nil && size.Check() != nil {
				return size.Check()
			}
		}
	}
	return nil
}

// isAnchored reports whether a regular expression matches whole texts only, or says explicitly, with .* or .+, that any text may precede or
// follow.
func isAnchored(expression string) bool {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	return err == nil && bounded(parsed, syntax.OpBeginText) && bounded(parsed, syntax.OpEndText)
}

// bounded reports whether every match of an expression begins or ends as the anchor demands.
func bounded(r *syntax.Regexp, anchor syntax.Op) bool {
	switch r.Op {
	case anchor:
		return true
	case syntax.OpStar, syntax.OpPlus:
		return r.Sub[0].Op == syntax.OpAnyChar || r.Sub[0].Op == syntax.OpAnyCharNotNL
	case syntax.OpCapture:
		return bounded(r.Sub[0], anchor)
	case syntax.OpConcat:
		if anchor == syntax.OpBeginText {
			return bounded(r.Sub[0], anchor)
		}
		return bounded(r.Sub[len(r.Sub)-1], anchor)
	case syntax.OpAlternate:
		return !slices.ContainsFunc(r.Sub, func(r *syntax.Regexp) bool { return !bounded(r, anchor) })
	}
	return false
}

// IdentityMistakes returns the reasons why no certificate, or more signers than intended, satisfies the identities.
func IdentityMistakes(k *world.KeylessAttestor) (out []string) {
	all := append([]world.Identity{{Issuer: k.Issuer, IssuerRegExp: k.IssuerRegExp, Subject: k.Subject, SubjectRegExp: k.SubjectRegExp}}, k.Others...)
	for _, id := range all {
		subject, issuer := id.Subject+id.SubjectRegExp != "", id.Issuer+id.IssuerRegExp != ""
		public := k.Roots == "" // anyone can get a certificate from the public authority
		switch {
		case len(k.Extensions) > 0:
		case !subject && !issuer:
			out = append(out, "neither a subject nor an issuer is required: everyone to whom the authority gives a certificate satisfies it")
		case !subject && public:
			out = append(out, "no subject is required: everyone whom the issuer knows satisfies it")
		case !issuer && public:
			out = append(out, "no issuer is required: everyone for whom any issuer gives that name satisfies it")
		}
		for _, text := range []string{id.IssuerRegExp, id.SubjectRegExp} {
			if unknownText(text) {
				continue
			}
			if size, err := compilecost.Regex(text); err != nil {
				out = append(out, "no certificate satisfies it: "+err.Error())
			} else if size.Check() == nil && !isAnchored(text) {
				out = append(out, "the expression "+text+" also matches a part of a longer name, which another signer may have: begin it with ^ and end it with $")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Extensions)) {
		if _, known := certificate.FulcioExtension(name); !known && !unknownText(name) {
			out = append(out, "no certificate satisfies it: invalid certificate extension "+name)
		}
	}
	return out
}
