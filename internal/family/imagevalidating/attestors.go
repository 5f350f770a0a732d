package imagevalidating

import (
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/world"
)

// attestor returns the authority with which the verifier checks signatures. Parts of it may be expressions, which are evaluated at the
// first use.
type attestor func(run.TextOf) (authority, error)

// authority is an attestor in the form that verifiers use.
type authority struct {
	name string
	// request is what all requests have in common: the format and the repository of signatures, and its pull secrets.
	request world.SignatureRequest
	// forms are alternatives, such as several keys: each is sufficient.
	forms []*world.Attestor
}

// statement is a kind of statement about an image.
type statement struct {
	kind     string
	referrer bool // it refers to the image in its registry; otherwise it is an in-toto statement
}

// textNoAuthority is Kyverno's, verbatim.
const textNoAuthority = "cosign verifier needs to have one key, keyless or certificate fields set"

// compileAttestors compiles spec.attestors and adds the mistakes to those of c.
func compileAttestors(c *celrule.Compiler, in []policiesv1beta1.Attestor, path string) map[string]attestor {
	out := make(map[string]attestor, len(in))
	for i := range in {
		a, at := &in[i], fmt.Sprintf("%s[%d]", path, i)
		switch {
		case a.Name == "":
			c.Diags.Required(at+".name", "an attestor needs a name")
		case out[a.Name] != nil:
			c.Diags.Warnf(at+".name", "another attestor has the name %q: this one is used", a.Name)
		}
		switch {
		case (a.Cosign == nil) == (a.Notary == nil):
			c.Diags.Invalid(at, "", "exactly one of cosign and notary must be set")
		case a.Cosign != nil:
			out[a.Name] = compileCosign(c, a.Name, a.Cosign, at+".cosign")
		default:
			out[a.Name] = compileNotary(c, a.Name, a.Notary, at+".notary")
		}
	}
	return out
}

// compileAttestations compiles spec.attestations.
func compileAttestations(c *celrule.Compiler, in []policiesv1beta1.Attestation, path string) map[string]statement {
	out := make(map[string]statement, len(in))
	for i := range in {
		a, at := &in[i], fmt.Sprintf("%s[%d]", path, i)
		if a.Name == "" {
			c.Diags.Required(at+".name", "an attestation needs a name")
		}
		switch {
		case (a.InToto == nil) == (a.Referrer == nil):
			c.Diags.Invalid(at, "", "exactly one of intoto and referrer must be set")
		case a.InToto != nil:
			out[a.Name] = statement{kind: a.InToto.Type}
		default:
			out[a.Name] = statement{kind: a.Referrer.Type, referrer: true}
		}
	}
	return out
}

// text is a literal text, or an expression that returns a text.
type text struct {
	value      string
	expression *run.Expression
	field      string // of the expression
}

// get returns the text. An expression that gives none is a mistake: a missing root or certificate would make another one count.
func (t text) get(of run.TextOf) (string, error) {
	if t.expression == nil {
		return t.value, nil
	}
	value, err := of(t.expression)
	if err == nil && strings.TrimSpace(value) == "" {
		err = &env.MistakeError{Reason: "the expression of " + t.field + " gives an empty text"}
	}
	return value, err
}

func compileText(c *celrule.Compiler, in *policiesv1beta1.StringOrExpression, path string) text {
	switch {
	case in == nil:
		return text{}
	case in.Expression != "":
		return text{expression: c.Expression(in.Expression, path+".expression", typecheck.Any), field: path[strings.LastIndexByte(path, '.')+1:]}
	}
	return text{value: in.Value}
}

func compileNotary(c *celrule.Compiler, name string, in *policiesv1beta1.Notary, path string) attestor {
	if in.Certs == nil || in.Certs.Value == "" && in.Certs.Expression == "" {
		c.Diags.Warnf(path+".certs", "no certificate is trusted: no signature satisfies the attestor")
	} else {
		warnOf(c, path+".certs.value", imageverify.CertificateMistake(in.Certs.Value))
	}
	if in.TSACerts != nil {
		warnOf(c, path+".tsaCerts.value", imageverify.CertificateMistake(in.TSACerts.Value))
	}
	certs, stamps := compileText(c, in.Certs, path+".certs"), compileText(c, in.TSACerts, path+".tsaCerts")
	return func(of run.TextOf) (out authority, err error) {
		form := &world.Attestor{Certificate: &world.CertificateAttestor{}}
		if form.Certificate.Chain, err = certs.get(of); err != nil {
			return out, err
		}
		if form.CTLog.TSACertChain, err = stamps.get(of); err != nil {
			return out, err
		}
		return authority{name, world.SignatureRequest{Format: imageverify.FormatNotary}, []*world.Attestor{form}}, nil
	}
}

// warnOf warns of an attestor that no signature, or every signature, satisfies.
func warnOf(c *celrule.Compiler, path, mistake string) {
	if mistake != "" {
		c.Diags.Warnf(path, "%s", mistake)
	}
}

func compileCosign(c *celrule.Compiler, name string, in *policiesv1beta1.Cosign, path string) attestor {
	if in.Key == nil && in.Keyless == nil && in.Certificate == nil {
		c.Diags.Warnf(path, textNoAuthority)
		c.Diags.Hint("an evaluation that asks for the attestor ends in an error")
	}
	warn := func(at, mistake string) { warnOf(c, path+at, mistake) }
	if in.Keyless != nil {
		warn(".keyless.roots", imageverify.CertificateMistake(in.Keyless.Roots))
		known := *in.Keyless
		known.Identities = slices.Clone(known.Identities)
		for i := range known.Identities {
			if id := &known.Identities[i]; id.SubjectExpression != "" {
				id.Subject = "{{ known when it is evaluated }}"
			}
		}
		if err := imageverify.IdentityCost(keyless(&known)); err != nil {
			c.Diags.Errorf(path+".keyless.identities", "%v", err)
		}
		for _, mistake := range imageverify.IdentityMistakes(keyless(&known)) {
			warn(".keyless.identities", mistake)
		}
	}
	if k := in.Key; k != nil {
		warn(".key.data", imageverify.KeyMistake(k.Data))
		warn(".key.kms", imageverify.KeyMistake(k.KMS))
		if k.Data == "" && k.KMS == "" && k.Expression == "" {
			warn(".key", "no key is named: no signature satisfies the attestor")
		}
		switch k.HashAlgorithm {
		case "", "sha224", "sha256", "sha384", "sha512":
		default:
			warn(".key.hashAlgorithm", "invalid signature algorithm provided "+k.HashAlgorithm+": no signature satisfies the attestor")
		}
	}
	if x := in.Certificate; x != nil {
		if x.Certificate != nil {
			warn(".certificate.cert.value", imageverify.CertificateMistake(x.Certificate.Value))
		}
		if x.CertificateChain != nil {
			warn(".certificate.certChain.value", imageverify.CertificateMistake(x.CertificateChain.Value))
		}
		if x.Certificate == nil && x.CertificateChain == nil {
			warn(".certificate", "neither a certificate nor a chain is named: no signature satisfies the attestor")
		}
	}
	if l := in.CTLog; l != nil {
		if !l.InsecureIgnoreTlog {
			warn(".ctlog.rekorPubKey", imageverify.LogKeyMistake(l.RekorPubKey))
		}
		if !l.InsecureIgnoreSCT {
			warn(".ctlog.ctLogPubKey", imageverify.LogKeyMistake(l.CTLogPubKey))
		}
		warn(".ctlog.tsaCertChain", imageverify.CertificateMistake(l.TSACertChain))
	}
	key := text{field: "key"}
	if k := in.Key; k != nil && k.Data == "" && k.KMS == "" && k.Expression != "" {
		key.expression = c.Expression(k.Expression, path+".key.expression", typecheck.Any)
	} else if k != nil {
		key.value = k.Data
	}
	var cert, chain text
	if x := in.Certificate; x != nil {
		cert, chain = compileText(c, x.Certificate, path+".certificate.cert"), compileText(c, x.CertificateChain, path+".certificate.certChain")
	}
	root := compileText(c, in.TrustedRoot, path+".trustedRoot")
	var subjects []text // one for each identity, as far as its subject is an expression
	if in.Keyless != nil {
		for i, id := range in.Keyless.Identities {
			subject := text{field: "a subject"}
			if id.SubjectExpression != "" {
				subject.expression = c.Expression(id.SubjectExpression, fmt.Sprintf("%s.keyless.identities[%d].subjectExpression", path, i), typecheck.Any)
			}
			subjects = append(subjects, subject)
		}
	}
	return func(of run.TextOf) (out authority, err error) {
		common := world.Attestor{Annotations: in.Annotations, Rekor: rekor(in.CTLog), CTLog: ctlog(in.CTLog)}
		if t := in.TUF; t != nil {
			common.Trust = world.Trust{Mirror: t.Mirror, RootPath: t.Root.Path, RootData: t.Root.Data}
		}
		if common.Trust.TrustedRoot, err = root.get(of); err != nil {
			return out, err
		}
		out = authority{name: name, request: world.SignatureRequest{Format: imageverify.FormatCosign}}
		if s := in.Source; s != nil {
			out.request.Repository, out.request.TagPrefix = s.Repository, s.TagPrefix
			for _, r := range s.SignaturePullSecrets {
				out.request.Registry.Secrets = append(out.request.Registry.Secrets, r.Name)
			}
		}
		add := func(form world.Attestor) { out.forms = append(out.forms, &form) }
		switch {
		case in.Key != nil:
			common.Algorithm = in.Key.HashAlgorithm
			keys, err := key.get(of)
			if err != nil {
				return out, err
			}
			if keys == "" && in.Key.KMS != "" {
				common.Key = &world.KeyAttestor{KMS: in.Key.KMS}
				add(common)
				break
			}
			for _, one := range blocks(keys) {
				common.Key = &world.KeyAttestor{PublicKey: one}
				add(common)
			}
		case in.Keyless != nil:
			given := *in.Keyless
			given.Identities = slices.Clone(given.Identities)
			for i, subject := range subjects {
				if subject.expression == nil {
					continue
				}
				if given.Identities[i].Subject, err = subject.get(of); err != nil {
					return out, err
				}
			}
			common.Keyless = keyless(&given)
			add(common)
		case in.Certificate != nil:
			given := &world.CertificateAttestor{}
			if given.Certificate, err = cert.get(of); err != nil {
				return out, err
			}
			if given.Chain, err = chain.get(of); err != nil {
				return out, err
			}
			common.Certificate = given
			add(common)
		default:
			return out, &env.MistakeError{Reason: textNoAuthority}
		}
		return out, nil
	}
}

// keyless returns the identities that may sign without a key. One of them is sufficient.
func keyless(in *policiesv1beta1.Keyless) *world.KeylessAttestor {
	out := &world.KeylessAttestor{Roots: in.Roots, Extensions: in.AdditionalExtensions}
	for i, id := range in.Identities {
		if i == 0 {
			out.Issuer, out.IssuerRegExp, out.Subject, out.SubjectRegExp = id.Issuer, id.IssuerRegExp, id.Subject, id.SubjectRegExp
			continue
		}
		out.Others = append(out.Others, world.Identity{Issuer: id.Issuer, IssuerRegExp: id.IssuerRegExp, Subject: id.Subject, SubjectRegExp: id.SubjectRegExp})
	}
	return out
}

func rekor(in *policiesv1beta1.CTLog) world.Rekor {
	if in == nil {
		return world.Rekor{}
	}
	return world.Rekor{URL: in.URL, PublicKey: in.RekorPubKey, Ignore: in.InsecureIgnoreTlog}
}

func ctlog(in *policiesv1beta1.CTLog) world.CTLog {
	if in == nil {
		return world.CTLog{}
	}
	return world.CTLog{PublicKey: in.CTLogPubKey, TSACertChain: in.TSACertChain, Ignore: in.InsecureIgnoreSCT}
}

// blocks splits a text into its PEM keys. A text without PEM is returned as one key; the verifier then reports the mistake.
func blocks(text string) (out []string) {
	for rest := []byte(text); ; {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		out, rest = append(out, string(pem.EncodeToMemory(block))), after
	}
	if len(out) == 0 {
		return []string{strings.TrimSpace(text)}
	}
	return out
}
