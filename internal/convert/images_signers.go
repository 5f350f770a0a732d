package convert

import (
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/value"
)

// signers collects the attestors of a policy. Equal attestors share one name.
type signers struct {
	*converter
	entry     *kyvernov1.ImageVerification
	attestors []any
	known     []string // the attestors as JSON, in the order of attestors
	last      string   // the attestor that was named last
}

// counter counts the attestors that accept an image.
type counter struct {
	// count returns the expression for their number in a list of attestors.
	count func(names string) string
	// one returns the condition that an attestor accepts the image; nil if its number says it.
	one func(name string) expr
}

// accepts returns the condition that an attestor accepts the image.
func (c counter) accepts(name string) expr {
	if c.one != nil {
		return c.one(name)
	}
	return comparison(c.count("["+name+"]") + " >= 1")
}

func (s *signers) notary() bool { return string(s.entry.Type) == imageverify.FormatNotary }

// sets returns a validation for each set of attestors.
func (s *signers) sets(in []kyvernov1.AttestorSet, path, about string, by counter) []any {
	var out []any
	for i := range in {
		holds := s.set(&in[i], fmt.Sprintf("%s.attestors[%d]", path, i), by)
		out = append(out, map[string]any{
			"expression": s.allImages().macro("all", "image", holds).text,
			"message":    fmt.Sprintf("an image lacks a signature%s that attestors[%d] require", about, i),
		})
	}
	return out
}

// set returns the condition that a set is satisfied: as many of its entries accept the image as it requires, by default all.
func (s *signers) set(in *kyvernov1.AttestorSet, path string, by counter) expr {
	var names, parts []string
	entries := 0
	for i := range in.Entries {
		e, at := &in.Entries[i], fmt.Sprintf("%s.entries[%d]", path, i)
		if e.Attestor != nil {
			parts = append(parts, "("+s.set(e.Attestor, at+".attestor", by).within(bindsOr)+" ? 1 : 0)")
			entries++
			continue
		}
		for _, form := range s.forms(e, at) {
			s.last = "attestors." + s.named(form)
			names = append(names, s.last)
			entries++
		}
	}
	if entries == 0 {
		s.refuse(path+".entries", "a set of attestors without entries is not converted", "")
		return no
	}
	required := entries
	if in.Count != nil && *in.Count > 0 {
		required = *in.Count
	}
	if required == 1 && len(parts) == 0 { // a signer that cannot be checked does not matter if another one is sufficient
		some := no
		for _, name := range names {
			some = or(some, by.accepts(name))
		}
		return some
	}
	if required < entries {
		s.note(path+".count", "if a signer cannot be checked, the policy in CEL ends in an error, even if other signers are sufficient", "")
	}
	if len(names) > 0 {
		parts = append([]string{by.count("[" + strings.Join(names, ", ") + "]")}, parts...)
	}
	return comparison(strings.Join(parts, " + ") + " >= " + strconv.Itoa(required))
}

// named returns the name of the attestor with this form, and adds the attestor if it is new.
func (s *signers) named(form map[string]any) string {
	text := value.JSON(form)
	i := slices.Index(s.known, text)
	if i < 0 {
		i = len(s.known)
		s.known = append(s.known, text)
		form["name"] = "attestor" + strconv.Itoa(i+1)
		s.attestors = append(s.attestors, form)
	}
	return "attestor" + strconv.Itoa(i+1)
}

// forms returns the attestors of an entry: one for each of its public keys.
func (s *signers) forms(e *kyvernov1.Attestor, path string) []map[string]any {
	if s.notary() {
		return s.notaryForm(e, path)
	}
	common := map[string]any{}
	if repository := first(e.Repository, s.entry.Repository); repository != "" {
		common["source"] = map[string]any{"repository": repository}
	}
	if len(e.Annotations) > 0 {
		common["annotations"] = anyMap(e.Annotations)
	}
	if s.entry.CosignOCI11 {
		s.refuse(path, "signatures that are found only through OCI 1.1 referrers are not converted", "remove cosignOCI11")
	}
	with := func(key string, v map[string]any) map[string]any {
		out := map[string]any{key: v}
		for k, v := range common {
			out[k] = v
		}
		return map[string]any{"cosign": out}
	}
	switch {
	case e.Keys != nil:
		logs(common, e.Keys.Rekor, e.Keys.CTLog)
		var out []map[string]any
		for _, key := range s.keys(e.Keys, path+".keys.publicKeys") {
			if a := first(e.Keys.SignatureAlgorithm, e.SignatureAlgorithm); a != "" && a != "sha256" {
				key["hashAlgorithm"] = a
			}
			out = append(out, with("key", key))
		}
		return out
	case e.Certificates != nil:
		logs(common, e.Certificates.Rekor, e.Certificates.CTLog)
		made := map[string]any{}
		if t := e.Certificates.Certificate; t != "" {
			made["cert"] = s.valueOf(t, path+".certificates.cert")
		}
		if t := e.Certificates.CertificateChain; t != "" {
			made["certChain"] = s.valueOf(t, path+".certificates.certChain")
		}
		return []map[string]any{with("certificate", made)}
	case e.Keyless != nil:
		k := e.Keyless
		logs(common, k.Rekor, k.CTLog)
		identity := map[string]any{}
		for name, text := range map[string]string{"issuer": k.Issuer, "issuerRegExp": k.IssuerRegExp, "subject": k.Subject, "subjectRegExp": k.SubjectRegExp} {
			if text != "" {
				identity[name] = text
			}
		}
		if strings.Contains(k.Subject, "{{") {
			delete(identity, "subject")
			identity["subjectExpression"], _ = s.place(k.Subject, path+".keyless.subject")
		}
		made := map[string]any{"identities": []any{identity}}
		if k.Roots != "" {
			made["roots"] = k.Roots
		}
		if len(k.AdditionalExtensions) > 0 {
			made["additionalExtensions"] = anyMap(k.AdditionalExtensions)
		}
		return []map[string]any{with("keyless", made)}
	}
	s.refuse(path, "an entry without an attestor is not converted", "")
	return nil
}

// notaryForm returns the attestor of an entry that verifies signatures of the Notary Project.
func (s *signers) notaryForm(e *kyvernov1.Attestor, path string) []map[string]any {
	if e.Certificates == nil {
		s.refuse(path, "an attestor without certificates cannot verify Notary signatures", "")
		return nil
	}
	certs := first(strings.TrimSpace(e.Certificates.Certificate), strings.TrimSpace(e.Certificates.CertificateChain))
	made := map[string]any{"value": certs + "\n"}
	if strings.Contains(certs, "{{") {
		made = s.valueOf(certs, path+".certificates")
	}
	return []map[string]any{{"notary": map[string]any{"certs": made}}}
}

// valueOf returns a text, or the expression for a text with variables.
func (s *signers) valueOf(t, path string) map[string]any {
	if !strings.Contains(t, "{{") {
		return map[string]any{"value": t}
	}
	expression, _ := s.place(t, path)
	return map[string]any{"expression": expression}
}

func first(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// keys returns the keys of an entry. A text with variables is one key.
func (s *signers) keys(k *kyvernov1.StaticKeyAttestor, path string) []map[string]any {
	if !strings.Contains(k.PublicKeys, "{{") {
		return keysOf(k)
	}
	if strings.Count(k.PublicKeys, "-----BEGIN") != 1 {
		s.note(path, "the text of the variable is one public key; of several keys, one is sufficient, where the classic rule asks for all of them, or for count", "write an entry for each key")
	}
	expression, _ := s.place(k.PublicKeys, path)
	return []map[string]any{{"expression": expression}}
}

// keysOf returns the keys of an entry. A key in a Secret or in a key management service is identified by its URI.
func keysOf(k *kyvernov1.StaticKeyAttestor) []map[string]any {
	uri := k.KMS
	switch {
	case k.Secret != nil:
		uri = "k8s://" + k.Secret.Namespace + "/" + k.Secret.Name
	case strings.Contains(k.PublicKeys, "://") && !strings.Contains(k.PublicKeys, "-----BEGIN"):
		uri = strings.TrimSpace(k.PublicKeys)
	}
	if uri != "" {
		return []map[string]any{{"kms": uri}}
	}
	var out []map[string]any
	for rest := []byte(k.PublicKeys); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		out = append(out, map[string]any{"data": string(pem.EncodeToMemory(block))})
	}
	if len(out) == 0 {
		out = []map[string]any{{"data": k.PublicKeys}}
	}
	return out
}

// logs adds the settings for the transparency log and the certificate log.
func logs(out map[string]any, r *kyvernov1.Rekor, t *kyvernov1.CTLog) {
	made := map[string]any{}
	set := func(name, text string) {
		if text != "" {
			made[name] = text
		}
	}
	if r != nil {
		set("url", r.URL)
		set("rekorPubKey", r.RekorPubKey)
		if r.IgnoreTlog {
			made["insecureIgnoreTlog"] = true
		}
	}
	if t != nil {
		set("ctLogPubKey", t.CTLogPubKey)
		set("tsaCertChain", t.TSACertChain)
		if t.IgnoreSCT {
			made["insecureIgnoreSCT"] = true
		}
	}
	if len(made) == 0 {
		return
	}
	if made["url"] == nil && made["insecureIgnoreTlog"] == nil { // a log needs an address
		made["url"] = publicLog
	}
	out["ctlog"] = made
}
