package imageverify

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/certificate"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/world"
)

// Describe returns a description of the signature that an attestor requires.
func Describe(a *world.Attestor) string {
	out := ""
	switch {
	case a == nil:
		return "anyone"
	case a.Key != nil:
		out = describeKey(a.Key)
	case a.Certificate != nil && a.Certificate.Certificate != "":
		out = "the certificate " + subjects(a.Certificate.Certificate)
	case a.Certificate != nil:
		out = "a certificate below " + subjects(a.Certificate.Chain)
	case a.Keyless != nil:
		out = describeIdentities(a.Keyless)
	default:
		return "no signer"
	}
	if len(a.Annotations) > 0 {
		out += ", annotated with " + pairs(a.Annotations)
	}
	return out
}

func describeKey(k *world.KeyAttestor) string {
	named := k.Named()
	switch {
	case named.SecretName != "":
		return "the key in the Secret " + strings.TrimPrefix(named.SecretNamespace+"/"+named.SecretName, "/")
	case named.KMS != "" && named.PublicKey == "":
		return "the key " + named.KMS
	}
	block, _ := pem.Decode([]byte(named.PublicKey))
	if block == nil {
		return "a key that cannot be read"
	}
	return "the key " + certificate.Fingerprint(block.Bytes)
}

// subjects returns the subjects of certificates, in PEM or in base64 of PEM.
func subjects(text string) string {
	if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil {
		text = string(decoded)
	}
	var out []string
	for rest := []byte(text); ; {
		block, after := pem.Decode(rest)
		if block == nil || len(out) == maxNames {
			break
		}
		rest = after
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, cert.Subject.String()+" ("+certificate.Fingerprint(block.Bytes)+")")
		}
	}
	if len(out) == 0 {
		return "that cannot be read"
	}
	return strings.Join(out, " or ")
}

// maxNames bounds the number of certificates or identities in a description.
const maxNames = 10

func describeIdentities(k *world.KeylessAttestor) string {
	var all []string
	for _, id := range append([]world.Identity{{Issuer: k.Issuer, IssuerRegExp: k.IssuerRegExp, Subject: k.Subject, SubjectRegExp: k.SubjectRegExp}}, k.Others...) {
		if len(all) == maxNames {
			break
		}
		all = append(all, who(id))
	}
	out := strings.Join(all, " or ")
	if len(k.Extensions) > 0 {
		out += " with " + pairs(k.Extensions)
	}
	return out
}

// who describes one identity.
func who(id world.Identity) string {
	either := func(text, expression string) string {
		if expression != "" {
			expression = "/" + expression + "/"
		}
		return strings.TrimPrefix(strings.TrimSuffix(text+" or "+expression, " or "), " or ")
	}
	subject, issuer := either(id.Subject, id.SubjectRegExp), either(id.Issuer, id.IssuerRegExp)
	switch {
	case subject == "" && issuer == "":
		return "anyone with a certificate of the authority"
	case subject == "":
		return "anyone of the issuer " + issuer
	case issuer == "":
		return subject
	}
	return subject + " of the issuer " + issuer
}

func pairs(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return strings.Join(out, ", ")
}

// noted returns the record of an attestor's check for the trace.
func noted(image, path, kind string, a *world.Attestor, found []trace.Signature, err error) trace.Attestor {
	out := trace.Attestor{Image: image, Path: path, Wants: Describe(a), Type: kind, Holds: err == nil, Found: found}
	if err != nil {
		unverified := (*world.UnverifiedError)(nil)
		out.Error, out.Unknown = err.Error(), !errors.As(err, &unverified)
	}
	return out
}

// asked returns the answer of an attestor, for events.
func asked(image, path, kind string, a *world.Attestor, err error) policy.Attested {
	out := policy.Attested{Image: image, Path: path, Type: kind, Attestor: a, Status: policy.StatusPass}
	if unverified := (*world.UnverifiedError)(nil); errors.As(err, &unverified) {
		out.Status = policy.StatusFail
	} else if err != nil {
		out.Status = policy.StatusError
	}
	return out
}
