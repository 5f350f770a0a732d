package rule

import (
	"encoding/pem"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/world"
)

const defaultAlgorithm = "sha256"

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

func planOf(e *kyvernov1.ImageVerification) *imagePlan {
	p := &imagePlan{
		Request: world.SignatureRequest{Format: string(e.Type), Repository: e.Repository, Referrers: e.CosignOCI11, Registry: credentials(e)},
	}
	if p.Request.Format == "" {
		p.Request.Format = imageverify.FormatCosign
	}
	notary := p.Request.Format == imageverify.FormatNotary
	p.Attestors = attestorSets(e.Attestors, "", notary)
	for i := range e.Attestations {
		a := &e.Attestations[i]
		kind := a.Type
		if kind == "" {
			kind = a.PredicateType
		}
		path := index(".attestations", i)
		p.Attestations = append(p.Attestations, imageAttestation{
			Path: path, Type: kind, Attestors: attestorSets(a.Attestors, path, notary), Otherwise: anyIdentity(notary),
		})
	}
	return p
}

// anyIdentity returns the signer of attestations without an attestor: any holder of a certificate from a trusted authority. For Notary
// there is no such signer.
func anyIdentity(notary bool) signer {
	if notary {
		return signer{}
	}
	return signer{Attestor: &world.Attestor{Keyless: &world.KeylessAttestor{}, Algorithm: defaultAlgorithm}}
}

func credentials(e *kyvernov1.ImageVerification) world.ImageRequest {
	var out world.ImageRequest
	if c := e.ImageRegistryCredentials; c != nil {
		out.Insecure, out.Secrets = c.AllowInsecureRegistry, c.Secrets
		for _, p := range c.Providers {
			out.Providers = append(out.Providers, string(p))
		}
	}
	return out
}

func attestorSets(in []kyvernov1.AttestorSet, path string, notary bool) []attestorSet {
	out := make([]attestorSet, len(in))
	for i := range in {
		out[i] = attestorSetOf(&in[i], path+index(".attestors", i), notary)
	}
	return out
}

func attestorSetOf(in *kyvernov1.AttestorSet, path string, notary bool) attestorSet {
	out := attestorSet{Path: path}
	for i := range in.Entries {
		e := &in.Entries[i]
		if e.Keys == nil {
			out.Entries = append(out.Entries, attestorEntryOf(e, path+index(".entries", len(out.Entries)), notary))
			continue
		}
		for _, key := range publicKeys(e.Keys.PublicKeys) { // each key becomes an entry
			one := *e
			keys := *e.Keys
			keys.PublicKeys = key
			one.Keys = &keys
			out.Entries = append(out.Entries, attestorEntryOf(&one, path+index(".entries", len(out.Entries)), notary))
		}
	}
	out.Required = len(out.Entries)
	if in.Count != nil && *in.Count > 0 {
		out.Required = *in.Count
	}
	return out
}

func attestorEntryOf(e *kyvernov1.Attestor, path string, notary bool) signer {
	out := signer{Path: path, Repository: e.Repository}
	a := &world.Attestor{Annotations: e.Annotations, Algorithm: e.SignatureAlgorithm}
	switch {
	case e.Keys != nil:
		out.Path += ".keys"
		a.Key = &world.KeyAttestor{PublicKey: e.Keys.PublicKeys, KMS: e.Keys.KMS}
		if e.Keys.SignatureAlgorithm != "" {
			a.Algorithm = e.Keys.SignatureAlgorithm
		}
		if s := e.Keys.Secret; s != nil {
			a.Key.SecretNamespace, a.Key.SecretName = s.Namespace, s.Name
		}
		// The field for keys may also refer to a Secret or a key service.
		if place, named := strings.CutPrefix(e.Keys.PublicKeys, "k8s://"); named {
			a.Key.PublicKey = ""
			a.Key.SecretNamespace, a.Key.SecretName, _ = strings.Cut(place, "/")
		} else if strings.Contains(e.Keys.PublicKeys, "://") && !strings.Contains(e.Keys.PublicKeys, "-----BEGIN") {
			a.Key.PublicKey, a.Key.KMS = "", e.Keys.PublicKeys
		}
		a.Rekor, a.CTLog = rekor(e.Keys.Rekor), ctlog(e.Keys.CTLog)
	case e.Certificates != nil:
		out.Path += ".certificates"
		a.Certificate = &world.CertificateAttestor{Certificate: e.Certificates.Certificate, Chain: e.Certificates.CertificateChain}
		a.Rekor, a.CTLog = rekor(e.Certificates.Rekor), ctlog(e.Certificates.CTLog)
	case e.Keyless != nil:
		out.Path += ".keyless"
		a.Keyless = keyless(e.Keyless)
		a.Rekor, a.CTLog = rekor(e.Keyless.Rekor), ctlog(e.Keyless.CTLog)
	case e.Attestor != nil:
		set := attestorSetOf(e.Attestor, path+".attestor", notary)
		out.Set = &set
		return out
	default:
		return out
	}
	if notary {
		out.Path = path // in the same form as Kyverno
	}
	if a.Algorithm == "" {
		a.Algorithm = defaultAlgorithm
	}
	out.Attestor = a
	return out
}

// publicKeys splits a text into its PEM blocks. Any other text is one key, possibly a reference to one.
func publicKeys(text string) []string {
	var out []string
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		out = append(out, string(pem.EncodeToMemory(block)))
	}
	if len(out) == 0 || strings.Count(text, "-----BEGIN") != len(out) {
		return []string{strings.TrimSpace(text)} // a malformed block is returned as it is
	}
	return out
}

func keyless(k *kyvernov1.KeylessAttestor) *world.KeylessAttestor {
	return &world.KeylessAttestor{
		Issuer: k.Issuer, IssuerRegExp: k.IssuerRegExp, Subject: k.Subject, SubjectRegExp: k.SubjectRegExp,
		Roots: k.Roots, Extensions: k.AdditionalExtensions,
	}
}

func rekor(r *kyvernov1.Rekor) world.Rekor {
	if r == nil {
		return world.Rekor{}
	}
	return world.Rekor{URL: r.URL, PublicKey: r.RekorPubKey, Ignore: r.IgnoreTlog}
}

func ctlog(l *kyvernov1.CTLog) world.CTLog {
	if l == nil {
		return world.CTLog{}
	}
	return world.CTLog{PublicKey: l.CTLogPubKey, TSACertChain: l.TSACertChain, Ignore: l.IgnoreSCT}
}
