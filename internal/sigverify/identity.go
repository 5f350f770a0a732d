package sigverify

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"ephor.invalid/ephor/internal/certificate"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world"
)

// identity describes who may sign. An empty text requires nothing.
type identity struct {
	subject, issuer   string // may contain wildcards
	subjects, issuers *regexp.Regexp
}

// detail is an extension that the certificate must have.
type detail struct {
	name  string
	oid   asn1.ObjectIdentifier
	value string // may contain wildcards
}

// arc is the arc of Fulcio, below which its certificate extensions are defined.
var arc = certificate.Fulcio

const (
	arcIssuerText = 1 // encoded as raw text
	arcIssuer     = 8 // from here on encoded in DER
)

func identities(in *world.KeylessAttestor) (who []identity, details []detail, err error) {
	given := append([]world.Identity{{Issuer: in.Issuer, IssuerRegExp: in.IssuerRegExp, Subject: in.Subject, SubjectRegExp: in.SubjectRegExp}}, in.Others...)
	for _, g := range given {
		i := identity{subject: g.Subject, issuer: g.Issuer}
		if i.subjects, err = expression("subject", g.SubjectRegExp); err != nil {
			return nil, nil, err
		}
		if i.issuers, err = expression("issuer", g.IssuerRegExp); err != nil {
			return nil, nil, err
		}
		who = append(who, i)
	}
	for name, value := range in.Extensions {
		oid, ok := certificate.FulcioExtension(name)
		if !ok {
			return nil, nil, fmt.Errorf("invalid certificate extension %s", name)
		}
		details = append(details, detail{name, oid, value})
	}
	slices.SortFunc(details, func(a, b detail) int { return strings.Compare(a.name, b.name) })
	return who, details, nil
}

func expression(what, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	size, err := compilecost.Regex(text)
	if err == nil {
		err = size.Check()
	}
	var r *regexp.Regexp
	if err == nil {
		r, err = regexp.Compile(text)
	}
	if err != nil {
		return nil, fmt.Errorf("invalid regexp for %s: %s : %w", what, text, err)
	}
	return r, nil
}

// identify checks that a certificate names one of the permitted signers and has the required extensions. The certificate must already be
// verified.
func (a *attestor) identify(cert *x509.Certificate) error {
	if a.Keyless == nil {
		return nil
	}
	var first error
	for n := range a.who {
		err := a.who[n].matches(cert)
		if err == nil {
			first = nil
			break
		}
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return first
	}
	for _, d := range a.details {
		value, _, err := extension(cert, d.oid)
		if err != nil {
			return err
		}
		if !wildcard.Match(d.value, value) {
			return fmt.Errorf("extension mismatch: expected %s for key %s, received %s", d.value, d.name, value)
		}
	}
	return nil
}

func (i *identity) matches(cert *x509.Certificate) error {
	if i.subject != "" || i.subjects != nil {
		names := subjects(cert)
		if !slices.ContainsFunc(names, func(s string) bool {
			return i.subject != "" && wildcard.Match(i.subject, s) || i.subjects != nil && i.subjects.MatchString(s)
		}) {
			expected := i.subject
			if expected == "" {
				expected = i.subjects.String()
			}
			return fmt.Errorf("subject mismatch: expected %s, received %s", expected, strings.Join(names, ", "))
		}
	}
	if i.issuer == "" && i.issuers == nil {
		return nil
	}
	issuer, err := issuerOf(cert)
	switch {
	case err != nil:
		return err
	case i.issuer != "" && !wildcard.Match(i.issuer, issuer):
		return fmt.Errorf("issuer mismatch: expected %s, received %s", i.issuer, issuer)
	case i.issuers != nil && !i.issuers.MatchString(issuer):
		return fmt.Errorf("issuer mismatch: expected %s, received %s", i.issuers, issuer)
	}
	return nil
}

// subjects returns the names of the signer.
func subjects(cert *x509.Certificate) []string {
	out := slices.Concat(cert.EmailAddresses, cert.DNSNames)
	for _, u := range cert.URIs {
		out = append(out, u.String())
	}
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	if other, err := cryptoutils.UnmarshalOtherNameSAN(cert.Extensions); err == nil && other != "" {
		out = append(out, other)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// issuerOf returns the issuer of the signer's identity. Newer authorities write it in a different extension than older ones; many write
// both.
func issuerOf(cert *x509.Certificate) (string, error) {
	text, hasText, err := extension(cert, append(slices.Clone(arc), arcIssuerText))
	if err != nil {
		return "", err
	}
	issuer, has, err := extension(cert, append(slices.Clone(arc), arcIssuer))
	switch {
	case err != nil:
		return "", err
	case has && hasText && issuer != text:
		return "", fmt.Errorf("issuer mismatch: the certificate names both %s and %s", text, issuer)
	case has:
		return issuer, nil
	}
	return text, nil
}

// extension reads one of Fulcio's extensions.
func extension(cert *x509.Certificate, oid asn1.ObjectIdentifier) (value string, has bool, err error) {
	for _, e := range cert.Extensions {
		if !e.Id.Equal(oid) {
			continue
		}
		if oid[len(oid)-1] < arcIssuer {
			return string(e.Value), true, nil
		}
		rest, err := asn1.UnmarshalWithParams(e.Value, &value, "utf8")
		if err != nil || len(rest) > 0 {
			return "", true, fmt.Errorf("the certificate's extension %s cannot be read", oid)
		}
		return value, true, nil
	}
	return "", false, nil
}
