package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/template"
)

// imageEntry is one compiled entry of verifyImages.
type imageEntry struct {
	references
	// mutateDigest: a digest is added to each tag. verifyDigest: an image without a digest fails. required: an image that was not verified
	// fails.
	mutateDigest, verifyDigest, required bool
	verifies                             bool // there is a required signer or a required statement
	useCache                             bool // answers about signatures may be remembered

	// plan holds the required signers. It is computed with the rule unless it contains variables. These are read only for an image
	// that the entry selects, so that other objects in the cluster do not depend on them.
	plan       *imagePlan
	variables  *template.Template
	written    any              // the signers as written; nil without variables
	names      []string         // the names of the variables for statements, by attestation; empty if there is none
	conditions []*condition.Set // by attestation; nil if there are none
	deny       handler          // nil if there is no validate block
}

// acts reports whether the entry has work in a mutating review.
func (x *imageEntry) acts() bool {
	return x.verifies || x.mutateDigest || x.deny != nil || len(x.skipped) > 0
}

func (c *compiler) imageEntry(e *kyvernov1.ImageVerification, path string) *imageEntry {
	e = ModernImages(e)
	c.imageMistakes(e, path)
	out := &imageEntry{
		references:   newReferences(e.ImageReferences, e.SkipImageReferences),
		mutateDigest: on(e.MutateDigest), verifyDigest: on(e.VerifyDigest), required: on(e.Required), useCache: on(e.UseCache),
		verifies: len(e.Attestors)+len(e.Attestations) > 0,
	}
	for i := range e.Attestations {
		a := &e.Attestations[i]
		var set *condition.Set
		if len(a.Conditions) > 0 {
			blocks := make([]any, len(a.Conditions))
			for j := range a.Conditions {
				blocks[j] = anyAllTree(&a.Conditions[j])
			}
			set = c.conditionTree(blocks, path+index(".attestations", i)+".conditions")
			c.diags.Add(set.Deprecated()...)
		}
		out.conditions, out.names = append(out.conditions, set), append(out.names, a.Name)
	}
	if v := e.Validation; v != nil {
		out.deny = c.imageDeny(v, path+".validate")
	}
	out.compileSigners(c, e, path)
	return out
}

// compileSigners compiles the required signers, which are all parts of the entry that may contain variables.
func (x *imageEntry) compileSigners(c *compiler, e *kyvernov1.ImageVerification, path string) {
	who := &kyvernov1.ImageVerification{
		Type: e.Type, Attestors: e.Attestors, Repository: e.Repository, CosignOCI11: e.CosignOCI11,
		ImageRegistryCredentials: e.ImageRegistryCredentials,
	}
	for _, a := range e.Attestations {
		a.Conditions = nil
		who.Attestations = append(who.Attestations, a)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(who)
	if err != nil {
		c.diags.Errorf(path, "%v", err)
		return
	}
	x.variables = template.Compile(tree, template.Options{Allowance: c.in.Allowance})
	for _, d := range x.variables.Diags() {
		d.Path = path
		c.diags.Add(d)
	}
	c.reads.Add(x.variables)
	if _, static := x.variables.Static(); static {
		x.plan, x.variables = planOf(who), nil
	} else {
		x.written = tree
	}
}

// planFor returns the plan with the values of the variables in the scope.
func (x *imageEntry) planFor(s *scope.Scope) (*imagePlan, error) {
	if x.plan != nil {
		return x.plan, nil
	}
	v, err := x.variables.Eval(s.QueryEnv(), s)
	if err != nil {
		return nil, err
	}
	if path := emptied(x.written, v, ""); path != "" {
		return nil, fmt.Errorf("%s is empty", path)
	}
	var who kyvernov1.ImageVerification
	if diags := strict.DecodeAt("", v, &who); diags.HasErrors() {
		return nil, diags.Err()
	}
	return planOf(&who), nil
}

// emptied returns the path of a text that the values of its variables make empty; "" for none. Without a subject, a root or the key of a log, any
// subject or the public one would count. An empty repository, or one in an empty login, stands for that of the image.
func emptied(written, v any, path string) string {
	switch w := written.(type) {
	case string:
		if text, ok := v.(string); (ok || v == nil) && strings.TrimSpace(text) == "" && w != "" {
			return path
		}
	case map[string]any:
		fields, _ := v.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(w)) {
			field, there := fields[key] // a key may have variables, too
			if !there || key == "repository" || key == "imageRegistryCredentials" {
				continue
			}
			if at := emptied(w[key], field, path+"."+key); at != "" {
				return at
			}
		}
	case []any:
		items, _ := v.([]any)
		for i := range min(len(w), len(items)) {
			if at := emptied(w[i], items[i], index(path, i)); at != "" {
				return at
			}
		}
	}
	return ""
}

// imageDeny compiles the validate block of an entry.
func (c *compiler) imageDeny(v *kyvernov1.ValidateImageVerification, path string) handler {
	pass := policy.Yield{Status: policy.StatusPass, Message: "verifyImages validation is passed in " + c.name + " rule"}
	if v.Deny == nil {
		return func(*scope.Scope) policy.Yield { return pass }
	}
	deny := c.deny(v.Deny, path+".deny", c.message(v.Message, path+".message"))
	return func(s *scope.Scope) policy.Yield {
		y := deny(s)
		switch y.Status {
		case policy.StatusPass:
			return pass
		case policy.StatusFail:
			y.Message = "validation in verifyImages failed: " + y.Message
		}
		return y
	}
}

// ModernImages returns the entry with its deprecated fields converted to the newer ones.
func ModernImages(e *kyvernov1.ImageVerification) *kyvernov1.ImageVerification {
	out := *e
	if e.Image != "" {
		out.ImageReferences = append(append([]string(nil), e.ImageReferences...), e.Image)
	}
	attestor := kyvernov1.Attestor{Annotations: e.Annotations}
	switch {
	case e.Key != "":
		attestor.Keys = &kyvernov1.StaticKeyAttestor{PublicKeys: e.Key}
	case e.Issuer != "" || e.Subject != "" || e.Roots != "":
		attestor.Keyless = &kyvernov1.KeylessAttestor{Issuer: e.Issuer, Subject: e.Subject, Roots: e.Roots, AdditionalExtensions: e.AdditionalExtensions}
	default:
		return &out
	}
	set := kyvernov1.AttestorSet{Entries: []kyvernov1.Attestor{attestor}}
	if len(e.Attestations) == 0 {
		out.Attestors = append(append([]kyvernov1.AttestorSet(nil), e.Attestors...), set)
		return &out
	}
	// In an entry with attestations, the deprecated fields define their signers.
	out.Attestations = append([]kyvernov1.Attestation(nil), e.Attestations...)
	for i := range out.Attestations {
		if a := &out.Attestations[i]; len(a.Attestors) == 0 {
			a.Attestors = []kyvernov1.AttestorSet{set}
		}
	}
	return &out
}
