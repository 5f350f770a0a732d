package rule

import (
	"errors"
	"fmt"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/manifest"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/world"
)

var validateManifests = &Kind{
	Name:  "validate.manifests",
	Stage: policy.StageValidate,
	Doc: "The annotations of the resource must contain a manifest of it that is signed by the attestors. The resource may differ from the manifest " +
		"only in fields that are ignored or that the API server sets.",
	Owns:         func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.Manifests != nil },
	skipOnDelete: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		m := r.Validation.Manifests
		path := c.in.Path + ".validate.manifests"
		if len(m.Attestors) == 0 {
			c.diags.Required(path+".attestors", "a manifest needs attestors")
			c.diags.Hint("add attestors with the keys that sign the manifests")
		}
		c.attestorMistakes(m.Attestors, path, false)
		check := &manifestCheck{domain: m.AnnotationDomain, repository: m.Repository}
		if check.domain == "" {
			check.domain = defaultAnnotationDomain
		}
		check.signers.compileSigners(c, &kyvernov1.ImageVerification{Attestors: m.Attestors}, path)
		for _, binding := range m.IgnoreFields {
			ignored := manifest.Ignored{Fields: binding.Fields}
			for _, o := range binding.Objects {
				ignored.Objects = append(ignored.Objects, objectOf(o))
			}
			check.ignored = append(check.ignored, ignored)
		}
		return check.evaluate
	},
}

const defaultAnnotationDomain = "cosign.sigstore.dev"

func objectOf(o kyvernov1.ObjectReference) manifest.Object {
	return manifest.Object{Group: o.Group, Version: o.Version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// manifestCheck is a compiled validate.manifests rule.
type manifestCheck struct {
	signers            imageEntry // the required signers; only its plan is used
	domain, repository string
	ignored            []manifest.Ignored
}

// Features that are not available offline.
var (
	errSignatures = fmt.Errorf("signatures of manifests are %w", world.ErrUnavailable)
	errRepository = fmt.Errorf("signatures of manifests in repositories are %w", world.ErrUnavailable)
)

// evaluate verifies the manifest of the object against every set of attestors.
func (m *manifestCheck) evaluate(s *scope.Scope) policy.Yield {
	object, err := subject(s)
	if err != nil {
		return failed("", err)
	}
	plan, err := m.signers.planFor(s)
	if err != nil {
		return failed(textSubstitution, err)
	}
	run := manifestRun{manifestCheck: m, scope: s, object: object}
	if run.claim, err = manifest.Read(object, m.domain); errors.Is(err, manifest.ErrNoSignature) && m.repository != "" {
		return failed(textManifestError, errRepository)
	}
	run.unreadable = err
	var verified []string
	for i := range plan.Attestors {
		run.signed = nil
		r := plan.Attestors[i].satisfy(run.entry)
		counts := fmt.Sprintf("; verifiedCount %d; requiredCount %d; message ", r.Verified, r.Required)
		if !r.ok() {
			y := r.yield("manifest verification failed" + counts)
			if y.Status == policy.StatusError {
				y = r.yield(textManifestError)
			}
			return y
		}
		verified = append(verified, "manifest verification succeeded"+counts+strings.Join(run.signed, "; "))
	}
	return policy.Yield{Status: policy.StatusPass, Message: "verified manifest signatures; " + strings.Join(verified, ",")}
}

const textManifestError = "error occurred during manifest verification: "

// manifestRun is the check of one object.
type manifestRun struct {
	*manifestCheck
	scope      *scope.Scope
	object     map[string]any
	claim      *manifest.Claim
	unreadable error // the reason why the claim cannot be read

	compared   bool
	difference error    // the difference between the object and the signed manifest; nil for none
	signed     []string // the results of satisfied entries
}

// entry verifies the signature of one attestor. The requester controls the annotations, so a mistake in them is a failure. If it were an
// error, a failurePolicy might admit the request.
func (r *manifestRun) entry(e *signer) error {
	if e.Attestor == nil {
		return errors.New("keys, certificates, keyless, or a nested attestor is required")
	}
	if r.unreadable != nil {
		return unsigned(r.unreadable.Error())
	}
	signatures := r.scope.Env.World.Signatures
	if signatures == nil {
		return errSignatures
	}
	request := world.BlobRequest{Content: r.claim.Message, Attestor: manifestAttestor(e.Attestor)}
	for _, s := range r.claim.Signatures {
		request.Signatures = append(request.Signatures, world.BlobSignature(s))
	}
	signer, err := signatures.Blob(r.scope.Env.Meter.Context(), request)
	if unverified := (*world.UnverifiedError)(nil); errors.As(err, &unverified) {
		return unsigned("no signature of " + imageverify.Describe(e.Attestor) + " found: " + unverified.Reason)
	}
	if err != nil {
		return err
	}
	if !r.compared {
		r.compared, r.difference = true, r.compare()
	}
	if r.difference != nil {
		return r.difference
	}
	r.signed = append(r.signed, "singed by a valid signer: "+signer) // Kyverno has this spelling
	return nil
}

// manifestAttestor returns the attestor for a manifest. As in Kyverno, a key needs an entry in a transparency log only if the attestor names
// the log; a certificate needs the time of such an entry.
func manifestAttestor(of *world.Attestor) *world.Attestor {
	out := *of
	if keyed := of.Key != nil || of.Certificate != nil && of.Certificate.Certificate != ""; keyed && of.Rekor.URL == "" && of.Rekor.PublicKey == "" {
		out.Rekor.Ignore = true
	}
	return &out
}

func unsigned(why string) error {
	return &world.UnverifiedError{Reason: "failed to verify signature. " + why}
}

func (r *manifestRun) compare() error {
	differences, err := r.claim.Compare(r.object, r.domain, r.ignored)
	if err != nil {
		return unsigned(err.Error())
	}
	if len(differences) > 0 {
		return unsigned("diff found; " + manifest.JSON(differences))
	}
	return nil
}
