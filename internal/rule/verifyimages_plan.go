package rule

import (
	"encoding/pem"
	"slices"
	"strconv"
	"strings"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/world"
)

// signingPlan says who has to sign an image, and which statements have to be there.
type signingPlan struct {
	request      world.SignatureRequest // what all requests have in common
	attestors    []attestorSet
	attestations []attestationPlan
}

type attestationPlan struct {
	path, name, kind string
	attestors        []attestorSet // none: signatures are not required
}

// attestorSet is satisfied by as many of its entries as it requires.
type attestorSet struct {
	path     string
	required int
	entries  []attestorEntry
}

// attestorEntry is one attestor or a nested set.
type attestorEntry struct {
	path       string // .attestors[0].entries[1].keys
	set        *attestorSet
	attestor   *world.Attestor
	repository string
}

func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

func planOf(e *kyvernov1.ImageVerification) *signingPlan {
	p := &signingPlan{
		request:   world.SignatureRequest{Format: string(e.Type), Repository: e.Repository, Referrers: e.CosignOCI11, Registry: credentials(e)},
		attestors: attestorSets(e.Attestors, ""),
	}
	if p.request.Format == "" {
		p.request.Format = "Cosign"
	}
	for i := range e.Attestations {
		a := &e.Attestations[i]
		kind := a.Type
		if kind == "" {
			kind = a.PredicateType
		}
		path := index(".attestations", i)
		p.attestations = append(p.attestations, attestationPlan{path: path, name: a.Name, kind: kind, attestors: attestorSets(a.Attestors, path)})
	}
	return p
}

// registry says how to log in, with more pull secrets.
func (p *signingPlan) registry(secrets []string) world.ImageRequest {
	r := p.request.Registry
	r.Secrets = slices.Concat(r.Secrets, secrets)
	return r
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

func attestorSets(in []kyvernov1.AttestorSet, path string) []attestorSet {
	out := make([]attestorSet, len(in))
	for i := range in {
		out[i] = attestorSetOf(&in[i], path+index(".attestors", i))
	}
	return out
}

func attestorSetOf(in *kyvernov1.AttestorSet, path string) attestorSet {
	out := attestorSet{path: path}
	for i := range in.Entries {
		e := &in.Entries[i]
		if e.Keys == nil {
			out.entries = append(out.entries, attestorEntryOf(e, path+index(".entries", len(out.entries))))
			continue
		}
		for _, key := range publicKeys(e.Keys.PublicKeys) { // several keys are several entries
			one := *e
			keys := *e.Keys
			keys.PublicKeys = key
			one.Keys = &keys
			out.entries = append(out.entries, attestorEntryOf(&one, path+index(".entries", len(out.entries))))
		}
	}
	out.required = len(out.entries)
	if in.Count != nil && *in.Count > 0 {
		out.required = *in.Count
	}
	return out
}

func attestorEntryOf(e *kyvernov1.Attestor, path string) attestorEntry {
	out := attestorEntry{path: path, repository: e.Repository}
	a := &world.Attestor{Annotations: e.Annotations, Algorithm: e.SignatureAlgorithm}
	switch {
	case e.Keys != nil:
		out.path += ".keys"
		a.Key = &world.KeyAttestor{PublicKey: e.Keys.PublicKeys, KMS: e.Keys.KMS}
		if e.Keys.SignatureAlgorithm != "" {
			a.Algorithm = e.Keys.SignatureAlgorithm
		}
		if s := e.Keys.Secret; s != nil {
			a.Key.SecretNamespace, a.Key.SecretName = s.Namespace, s.Name
		}
		// A key may also be named where keys are written.
		if place, named := strings.CutPrefix(e.Keys.PublicKeys, "k8s://"); named {
			a.Key.PublicKey = ""
			a.Key.SecretNamespace, a.Key.SecretName, _ = strings.Cut(place, "/")
		} else if strings.Contains(e.Keys.PublicKeys, "://") && !strings.Contains(e.Keys.PublicKeys, "-----BEGIN") {
			a.Key.PublicKey, a.Key.KMS = "", e.Keys.PublicKeys
		}
		a.Rekor, a.CTLog = rekor(e.Keys.Rekor), ctlog(e.Keys.CTLog)
	case e.Certificates != nil:
		out.path += ".certificates"
		a.Certificate = &world.CertificateAttestor{Certificate: e.Certificates.Certificate, Chain: e.Certificates.CertificateChain}
		a.Rekor, a.CTLog = rekor(e.Certificates.Rekor), ctlog(e.Certificates.CTLog)
	case e.Keyless != nil:
		out.path += ".keyless"
		k := e.Keyless
		a.Keyless = &world.KeylessAttestor{
			Issuer: k.Issuer, IssuerRegExp: k.IssuerRegExp, Subject: k.Subject, SubjectRegExp: k.SubjectRegExp,
			Roots: k.Roots, Extensions: k.AdditionalExtensions,
		}
		a.Rekor, a.CTLog = rekor(k.Rekor), ctlog(k.CTLog)
	case e.Attestor != nil:
		set := attestorSetOf(e.Attestor, path+".attestor")
		out.set = &set
		return out
	default:
		return out
	}
	if a.Algorithm == "" {
		a.Algorithm = "sha256"
	}
	out.attestor = a
	return out
}

// publicKeys splits a text with several PEM blocks; any other text is one key, which may also be named from elsewhere.
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
		return []string{strings.TrimSpace(text)} // a malformed block must not be left out
	}
	return out
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
