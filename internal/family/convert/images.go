package convert

import (
	"encoding/pem"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/rule"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// verification converts the entries of verifyImages of a rule, each to a policy.
func (c *converter) verification(r *kyvernov1.Rule, spec map[string]any) {
	c.extractors(r, spec)
	common := maps.Clone(spec)
	for i := range r.VerifyImages {
		path := fmt.Sprintf("%s.verifyImages[%d]", c.path, i)
		name, of := c.name(r), spec
		if i > 0 {
			name, of = fmt.Sprintf("%s-%d", name, i+1), maps.Clone(common)
		}
		c.imageEntry(&r.VerifyImages[i], of, path)
		all := maps.Clone(of) // of all namespaces
		if i > 0 {
			made := c.assembled("ImageValidatingPolicy", name, c.policy.Kind == "Policy", of)
			c.more = append(append(c.more, made), c.overridden(made)...)
		}
		c.debugging(name, all)
		c.extractedDigests(r, rule.ModernImages(&r.VerifyImages[i]), name, all, path)
	}
}

// debugging adds the policy that adds digests to the images of debug containers. It is a policy of its own, since only one about nothing but Pods
// covers their controllers.
func (c *converter) debugging(name string, spec map[string]any) {
	settings, _ := spec["validationConfigurations"].(map[string]any)
	if !c.debugged || settings["mutateDigest"] != true {
		return
	}
	of := maps.Clone(spec)
	delete(of, "autogen")
	constraints := maps.Clone(spec["matchConstraints"].(map[string]any))
	constraints["resourceRules"] = []any{map[string]any{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"UPDATE"}, "resources": []any{"pods/ephemeralcontainers"},
	}}
	of["matchConstraints"] = constraints
	made := c.assembled("ImageValidatingPolicy", name+"-debug", c.policy.Kind == "Policy", of)
	c.more = append(append(c.more, made), c.overridden(made)...)
}

// imageAction returns the action of the rule: one entry that enforces is enough. Without an action of its own, that of the policy decides.
func (c *converter) imageAction() (enforce bool, overrides []kyvernov1.ValidationFailureActionOverride) {
	all := c.policy.Spec.Rules[c.index].VerifyImages
	for i := range all {
		if a := all[i].FailureAction; a != nil && a.IsEnforce() {
			return true, nil
		}
	}
	if len(all) > 0 && all[0].FailureAction != nil {
		return false, nil
	}
	return c.policy.Spec.ValidationFailureAction.IsEnforce(), c.policy.Spec.ValidationFailureActionOverrides
}

// imageEntry converts one entry of verifyImages.
func (c *converter) imageEntry(entry *kyvernov1.ImageVerification, spec map[string]any, path string) {
	e := rule.ModernImages(entry)
	if strings.Contains(value.JSON(document(withoutVariables(e))), "{{") {
		c.refuse(path, "variables in the verification of images are converted in public keys, certificates and subjects only", "write the values")
		return
	}
	if e.UseCache != nil && !*e.UseCache {
		c.note(path+".useCache", "useCache: false has no counterpart: results for a digest may come from a cache", "")
	}
	enforce, overrides := c.imageAction()
	c.overrides(overrides, enforce, path)
	actions := []any{"Audit"}
	if enforce {
		actions = []any{"Deny"}
	}
	if s := &c.policy.Spec; s.EmitWarning != nil && *s.EmitWarning {
		actions = append(actions, "Warn")
	}
	spec["validationActions"] = actions
	if selected := c.references(e, path); selected != nil {
		spec["matchImageReferences"] = selected
	}
	verifies := len(e.Attestors)+len(e.Attestations) > 0
	spec["validationConfigurations"] = map[string]any{
		"mutateDigest": isOn(e.MutateDigest), "verifyDigest": isOn(e.VerifyDigest), "required": isOn(e.Required) && verifies,
	}
	if made := credentials(e.ImageRegistryCredentials); len(made) > 0 {
		spec["credentials"] = made
	}
	s := &signers{converter: c, entry: e}
	validations := s.sets(e.Attestors, path, "", counter{count: func(names string) string { return "verifyImageSignatures(image, " + names + ")" }})
	var attestations []any
	named := map[string]term{}
	for i := range e.Attestations {
		a, at := &e.Attestations[i], fmt.Sprintf("%s.attestations[%d]", path, i)
		kind := a.Type
		if kind == "" {
			kind = a.PredicateType
		}
		name, form := "statement"+strconv.Itoa(i+1), "intoto"
		if s.notary() {
			form = "referrer"
		}
		attestations = append(attestations, map[string]any{"name": name, form: map[string]any{"type": kind}})
		sets := a.Attestors
		if len(sets) == 0 { // anyone whom the authority knows
			sets = []kyvernov1.AttestorSet{{Entries: []kyvernov1.Attestor{{Keyless: &kyvernov1.KeylessAttestor{}}}}}
		}
		validations = append(validations, s.sets(sets, at, " of type "+kind, s.statements(a, name, at))...)
		if a.Name != "" {
			last := s.payload(member("extractPayloads(image, attestations." + name + ", " + s.last + ").reverse()[0]"))
			named[a.Name] = term{expr: last, root: last}
		}
	}
	if len(attestations) > 0 {
		spec["attestations"] = attestations
	}
	if s.attestors == nil {
		s.attestors, validations = []any{}, []any{map[string]any{"expression": "true"}}
	}
	if one := s.checked(e.Validation, named, path+".validate"); one != nil {
		validations = append(validations, one)
	}
	spec["attestors"], spec["validations"] = s.attestors, validations
}

// withoutVariables returns the entry without its conditions, and without the fields that may have variables.
func withoutVariables(e *kyvernov1.ImageVerification) *kyvernov1.ImageVerification {
	out := e.DeepCopy()
	out.Validation = nil
	var blank func(sets []kyvernov1.AttestorSet)
	blank = func(sets []kyvernov1.AttestorSet) {
		for i := range sets {
			for j := range sets[i].Entries {
				e := &sets[i].Entries[j]
				if e.Keys != nil {
					e.Keys.PublicKeys = ""
				}
				if e.Keyless != nil {
					e.Keyless.Subject = ""
				}
				if e.Certificates != nil {
					e.Certificates.Certificate, e.Certificates.CertificateChain = "", ""
				}
				if e.Attestor != nil {
					blank([]kyvernov1.AttestorSet{*e.Attestor})
				}
			}
		}
	}
	blank(out.Attestors)
	for i := range out.Attestations {
		out.Attestations[i].Conditions = nil
		blank(out.Attestations[i].Attestors)
	}
	return out
}

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

func isOn(b *bool) bool { return b == nil || *b }

func credentials(in *kyvernov1.ImageRegistryCredentials) map[string]any {
	out := map[string]any{}
	if in == nil {
		return out
	}
	if in.AllowInsecureRegistry {
		out["allowInsecureRegistry"] = true
	}
	if len(in.Secrets) > 0 {
		out["secrets"] = texts(in.Secrets)
	}
	if len(in.Providers) > 0 {
		out["providers"] = texts(in.Providers)
	}
	return out
}

func texts[T ~string](in []T) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}

// allImages is the CEL expression for all images of the resource that the policy evaluates. Released versions of Kyverno have no list of
// image volumes.
const allImages = "(images.containers + images.initContainers + images.ephemeralContainers + images.?imageVolumes.orValue([]))"

// allImages returns the list of all images of the resource.
func (c *converter) allImages() expr {
	if c.extracted != (expr{}) {
		return c.extracted
	}
	return member(allImages)
}

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

// publicLog is the transparency log that is used if a policy sets none.
const publicLog = "https://rekor.sigstore.dev"

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

// references selects the images of an entry; it returns nil if the entry selects all. Globs select what imageReferences do. To exclude
// some images takes an expression.
func (c *converter) references(e *kyvernov1.ImageVerification, path string) []any {
	about := trimmed(e.ImageReferences)
	if len(e.SkipImageReferences) > 0 {
		if all := c.selects(e, path); all != yes {
			return []any{map[string]any{"expression": all.text}}
		}
		return nil
	}
	if slices.Contains(about, "*") {
		return nil
	}
	out := make([]any, len(about))
	for i, p := range about {
		out[i] = map[string]any{"glob": strings.NewReplacer(`\`, `\\`, `[`, `\[`, `{`, `\{`).Replace(p)}
	}
	return out
}

// selects returns the condition that an entry selects the image ref. It must not hold for another spelling of an image that the entry skips.
func (c *converter) selects(e *kyvernov1.ImageVerification, path string) expr {
	about := trimmed(e.ImageReferences)
	everything := slices.Contains(about, "*")
	var skipped []string
	for _, p := range trimmed(e.SkipImageReferences) {
		switch host, _, _ := strings.Cut(p, "/"); {
		case anyHost(host):
			skipped = append(skipped, p)
		case !wildcard.Has(host) && !imageref.IsRegistry(host): // it matches no image: they have registries
		case wildcard.Has(host) || imageref.CanonicalRegistry(host) != host || host == imageref.DefaultRegistry:
			c.refuse(path+".skipImageReferences", "the pattern "+p+" is not converted: it exempts only some spellings of an image",
				"begin it with a registry in lower case, other than docker.io")
		default:
			skipped = append(skipped, p)
		}
	}
	if everything && len(skipped) == 0 {
		return yes
	}
	const name, pinned = "image(ref).registry() + '/' + image(ref).repository()", "n + image(ref).identifierWithSeparator()"
	all := yes
	if !everything {
		var forms []string
		for _, p := range about {
			if host, _, ok := strings.Cut(p, "/"); !namesRegistry(p) && !(ok && anyHost(host)) {
				c.refuse(path+".imageReferences", "the pattern "+p+" is not converted in this place: it names no registry",
					"begin it with a registry without wildcards")
				return yes
			}
			for _, form := range imageref.Patterns(p, "*?") {
				if made := anySpelling(form); !slices.Contains(forms, made) {
					forms = append(forms, made)
				}
			}
		}
		tagged := func(tag string) string {
			return "image(ref).identifier() == image(ref).digest() ? n : n + ':' + image(ref)." + tag
		}
		all = member("[" + pinned + ", " + tagged("tag()") + ", " + tagged("identifier()") + ", image(ref).tag() == 'latest' ? n : " + pinned + "]" +
			".exists(t, t.matches(" + text("^(?:"+strings.Join(forms, "|")+")$") + "))")
	}
	if len(skipped) > 0 {
		for i, p := range skipped {
			skipped[i] = wildcardExpression(p)
		}
		all = and(all, not(member("("+pinned+").matches("+text("^(?:"+strings.Join(skipped, "|")+")$")+")")))
	}
	return member("["+name+"]").macro("exists", "n", all)
}

// namesRegistry reports whether a pattern begins with a registry without wildcards.
func namesRegistry(pattern string) bool {
	host, _, ok := strings.Cut(pattern, "/")
	return ok && imageref.IsRegistry(host) && !wildcard.Has(host)
}

// anyHost reports whether the beginning of a pattern has wildcards, and treats both names of Docker Hub alike.
func anyHost(host string) bool {
	return wildcard.Has(host) && strings.ToLower(host) == host && wildcard.Match(host, imageref.DefaultRegistry) == wildcard.Match(host, "index."+imageref.DefaultRegistry)
}

// anySpelling returns a regular expression for the images of a pattern with a registry, in the spelling of the image library and with the
// registry in capital letters or with the default port.
func anySpelling(pattern string) string {
	host, path, _ := strings.Cut(pattern, "/")
	if anyHost(host) {
		return "(?i:" + wildcardExpression(host) + ")(?::0*443)?/" + wildcardExpression(path)
	}
	if host = imageref.CanonicalRegistry(host); host == imageref.DefaultRegistry {
		host = "index.docker.io"
		if !strings.Contains(path, "/") {
			return regexp.QuoteMeta(host) + "/(?:library/)?" + wildcardExpression(path)
		}
	}
	port := "(?::0*443)?"
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], ":0*"+host[i+1:]
	}
	return "(?i:" + regexp.QuoteMeta(host) + ")" + port + "/" + wildcardExpression(path)
}

// wildcardExpression returns the regular expression for a pattern with wildcards.
func wildcardExpression(pattern string) string {
	return strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
}

func trimmed(in []string) []string {
	out := make([]string, len(in))
	for i, p := range in {
		out[i] = strings.TrimSpace(p)
	}
	return out
}
