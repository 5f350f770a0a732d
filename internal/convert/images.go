package convert

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/rule"
	"ephor.invalid/ephor/internal/value"
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

// publicLog is the transparency log that is used if a policy sets none.
const publicLog = "https://rekor.sigstore.dev"
