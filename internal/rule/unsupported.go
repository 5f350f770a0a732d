package rule

import (
	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Kinds that are recognised and refused. A later change replaces a row by a file.
var (
	validateManifests = unsupported("validate.manifests", policy.StageValidate,
		"Verifies the signature of a YAML manifest that was applied.",
		func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.Manifests != nil })
)

func unsupported(name policy.RuleKind, stage policy.Stage, doc string, owns func(*kyvernov1.Rule) bool) *Kind {
	return &Kind{Name: name, Stage: stage, Doc: doc, Owns: owns, skipOnDelete: true,
		compile: func(c *compiler, _ *kyvernov1.Rule) handler {
			c.diags.Errorf(c.in.Path+"."+string(name), "%s is not supported by this version of Ephor yet", name)
			return nil
		}}
}
