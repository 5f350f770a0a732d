package rule

import (
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
)

// signatureAlgorithms are the hash algorithms of signatures.
var signatureAlgorithms = []string{"sha224", "sha256", "sha384", "sha512"}

// imageMistakes reports the mistakes in an entry.
func (c *compiler) imageMistakes(e *kyvernov1.ImageVerification, path string) {
	if len(e.ImageReferences) == 0 {
		c.diags.Errorf(path+".imageReferences", "An image reference is required")
		c.diags.Hint("add imageReferences, such as [\"ghcr.io/shop/*\"]; [\"*\"] is every image")
	}
	for _, refs := range [][]string{e.ImageReferences, e.SkipImageReferences} {
		for _, ref := range refs {
			if strings.Contains(ref, "{{") {
				c.diags.Errorf(path+".imageReferences", "policy contains invalid variables: rule %q should not have variables in image reference section", c.name)
				c.diags.Hint("write fixed patterns, such as ghcr.io/shop/*, and compare variables in preconditions")
			}
		}
	}
	audits := c.in.Action.Default == policy.Audit
	if e.FailureAction != nil {
		audits = !e.FailureAction.IsEnforce()
	}
	if audits && on(e.MutateDigest) {
		c.diags.Errorf(path+".mutateDigest", "mutateDigest must be set to false for ‘Audit’ failure action")
		c.diags.Hint("set mutateDigest to false, or failureAction to Enforce")
	}
	notary := e.Type == "Notary"
	c.attestorMistakes(e.Attestors, path, notary)
	for i := range e.Attestations {
		a := &e.Attestations[i]
		at := path + index(".attestations", i)
		if a.Type == "" && a.PredicateType != "" {
			c.diags.Warnf(at+".predicateType", "predicateType has been deprecated use 'type: %s' instead of 'predicateType: %s'", a.PredicateType, a.PredicateType)
			c.diags.Hint("rename the field to type")
		}
		if a.Type == "" && a.PredicateType == "" {
			c.diags.Errorf(at+".type", "a type is required")
			c.diags.Hint("add type, such as https://slsa.dev/provenance/v1")
		}
		if notary && len(a.Attestors) == 0 {
			c.diags.Errorf(at, "certificates are required")
			c.diags.Hint("name the certificates that sign the attestation in its attestors")
		}
		c.attestorMistakes(a.Attestors, at, notary)
	}
}

func (c *compiler) attestorMistakes(sets []kyvernov1.AttestorSet, path string, notary bool) {
	for i := range sets {
		c.attestorSetMistakes(&sets[i], path+index(".attestors", i), notary)
	}
}

func (c *compiler) attestorSetMistakes(set *kyvernov1.AttestorSet, path string, notary bool) {
	if len(set.Entries) == 0 {
		c.diags.Errorf(path+".entries", "An entry is required")
		c.diags.Hint("add entries, each with one of keys, certificates, keyless and attestor")
	}
	entries := 0 // a text with several keys counts as several entries; a variable may hold any number of keys
	for i := range set.Entries {
		e := &set.Entries[i]
		at := path + index(".entries", i)
		entries += entryCount(e)
		c.attestorEntryMistakes(e, at, notary)
	}
	if set.Count != nil {
		switch {
		case *set.Count < 1:
			c.diags.Invalid(path+".count", *set.Count, "should be greater than or equal to 1")
			c.diags.Hint("write how many of the entries have to accept the signature, or remove count: all have to")
		case len(set.Entries) > 0 && *set.Count > entries:
			c.diags.Errorf(path+".count", "Count cannot exceed length of entries")
			c.diags.Hint("there are %d keys and entries: lower count, or add entries", entries)
		}
	}
}

func entryCount(e *kyvernov1.Attestor) int {
	const any = 1 << 20
	if e.Keys == nil {
		return 1
	}
	if strings.Contains(e.Keys.PublicKeys, "{{") {
		return any
	}
	return max(1, len(publicKeys(e.Keys.PublicKeys)))
}

func (c *compiler) attestorEntryMistakes(e *kyvernov1.Attestor, path string, notary bool) {
	kinds := 0
	for _, has := range []bool{e.Keys != nil, e.Certificates != nil, e.Keyless != nil, e.Attestor != nil} {
		if has {
			kinds++
		}
	}
	if kinds != 1 {
		c.diags.Errorf(path, "keys, certificates, keyless, or a nested attestor is required")
		c.diags.Hint("add one of keys, certificates, keyless and attestor to the entry")
		if kinds > 1 {
			c.diags.Hint("write one entry for each of them")
		}
		return
	}
	c.algorithm(e.SignatureAlgorithm, path)
	switch {
	case e.Keys != nil:
		if notary {
			c.diags.Errorf(path+".keys", "Keys field is not allowed for type notary")
			c.diags.Hint("signatures of Notary are accepted by certificates: write certificates.cert")
		}
		k := e.Keys
		c.attestorWarning(path+".keys.publicKeys", imageverify.KeyMistake(k.PublicKeys))
		if k.PublicKeys == "" && k.KMS == "" && k.Secret == nil {
			c.diags.Errorf(path+".keys", "A public key, kms key or secret is required")
			c.diags.Hint("add publicKeys, with the text of the key (-----BEGIN PUBLIC KEY-----), kms or secret")
		}
		c.attestorWarning(path+".keys.kms", imageverify.KeyMistake(k.KMS))
		c.algorithm(k.SignatureAlgorithm, path+".keys")
		c.logMistakes(k.Rekor, k.CTLog, path+".keys")
	case e.Certificates != nil:
		c.attestorWarning(path+".certificates.cert", imageverify.CertificateMistake(e.Certificates.Certificate))
		c.attestorWarning(path+".certificates.certChain", imageverify.CertificateMistake(e.Certificates.CertificateChain))
		if e.Certificates.Certificate == "" && e.Certificates.CertificateChain == "" {
			c.diags.Errorf(path+".certificates", "cert or certChain required")
			c.diags.Hint("add the text of a certificate (-----BEGIN CERTIFICATE-----), or of its chain")
		}
		c.logMistakes(e.Certificates.Rekor, e.Certificates.CTLog, path+".certificates")
	case e.Keyless != nil:
		if notary {
			c.diags.Errorf(path+".keyless", "Keyless field is not allowed for type notary")
			c.diags.Hint("signatures of Notary are accepted by certificates: write certificates.cert")
		}
		c.attestorWarning(path+".keyless.roots", imageverify.CertificateMistake(e.Keyless.Roots))
		if err := imageverify.IdentityCost(keyless(e.Keyless)); err != nil {
			c.diags.Errorf(path+".keyless", "%v", err)
		}
		for _, mistake := range imageverify.IdentityMistakes(keyless(e.Keyless)) {
			c.attestorWarning(path+".keyless", mistake)
		}
		if e.Keyless.Rekor == nil && e.Keyless.Roots == "" {
			c.diags.Errorf(path+".keyless", "Either Rekor URL or roots are required")
			c.diags.Hint("add rekor.url, https://rekor.sigstore.dev for the public log, or the certificates of your authority in roots")
		}
		c.logMistakes(e.Keyless.Rekor, e.Keyless.CTLog, path+".keyless")
	default:
		c.attestorSetMistakes(e.Attestor, path+".attestor", notary)
	}
}

// logMistakes warns of keys and certificates of logs and authorities that cannot be parsed, because no signature can then satisfy the
// attestor.
func (c *compiler) logMistakes(r *kyvernov1.Rekor, l *kyvernov1.CTLog, path string) {
	if r != nil && !r.IgnoreTlog {
		c.attestorWarning(path+".rekor.pubkey", imageverify.LogKeyMistake(r.RekorPubKey))
	}
	if l != nil && !l.IgnoreSCT {
		c.attestorWarning(path+".ctlog.pubkey", imageverify.LogKeyMistake(l.CTLogPubKey))
	}
	if l != nil {
		c.attestorWarning(path+".ctlog.tsaCertChain", imageverify.CertificateMistake(l.TSACertChain))
	}
}

func (c *compiler) algorithm(name, path string) {
	if name != "" && !strings.Contains(name, "{{") && !slices.Contains(signatureAlgorithms, name) {
		c.diags.Errorf(path+".signatureAlgorithm", "Invalid signature algorithm provided")
		c.diags.Hint("algorithms are %s", strings.Join(signatureAlgorithms, ", "))
	}
}

// attestorWarning warns of an attestor that no signature, or every signature, satisfies. It is not an error, since Kyverno accepts such a
// policy.
func (c *compiler) attestorWarning(path, mistake string) {
	if mistake != "" {
		c.diags.Warnf(path, "%s", mistake)
	}
}
