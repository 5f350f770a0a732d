package rule

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/imageverify"
	"github.com/ephor-dev/ephor/internal/manifest"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/scope"
	"github.com/ephor-dev/ephor/internal/world"
)

var validateManifests = &Kind{
	Name:  "validate.manifests",
	Stage: policy.StageValidate,
	Doc: "The resource has to carry a signed manifest of itself in its annotations, signed by the attestors, and may differ from it only in fields " +
		"that are ignored or that the API server fills.",
	Owns:         func(r *kyvernov1.Rule) bool { return r.Validation != nil && r.Validation.Manifests != nil },
	skipOnDelete: true,
	compile: func(c *compiler, r *kyvernov1.Rule) handler {
		m := r.Validation.Manifests
		path := c.in.Path + ".validate.manifests"
		if len(m.Attestors) == 0 {
			c.diags.Required(path+".attestors", "a manifest needs attestors")
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

// manifestCheck is a validate.manifests rule, compiled.
type manifestCheck struct {
	signers            imageEntry // who has to sign; only its plan is used
	domain, repository string
	ignored            []manifest.Ignored
}

// What cannot be asked for offline.
var (
	errKeyless    = fmt.Errorf("keyless signatures of manifests are %w", world.ErrUnavailable)
	errChain      = fmt.Errorf("certificates that are only known by their chain are %w", world.ErrUnavailable)
	errKMS        = fmt.Errorf("key management services are %w", world.ErrUnavailable)
	errLog        = fmt.Errorf("transparency logs are %w", world.ErrUnavailable)
	errRepository = fmt.Errorf("signatures of manifests in repositories are %w", world.ErrUnavailable)
	errSecrets    = fmt.Errorf("secrets with keys are %w", world.ErrUnavailable)
)

// evaluate verifies the manifest of the object by every set of attestors.
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
		r := plan.Attestors[i].Satisfy(run.entry)
		counts := fmt.Sprintf("; verifiedCount %d; requiredCount %d; message ", r.Verified, r.Required)
		if !r.OK() {
			y := r.Yield("manifest verification failed" + counts)
			if y.Status == policy.StatusError {
				y = r.Yield(textManifestError)
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
	unreadable error // why there is no claim

	compared   bool
	difference error    // what the signed manifest says against the object; nil when it says the same
	signed     []string // what was found out about satisfied entries
}

// entry verifies the signature of one attestor. What is wrong with the annotations is the requester's doing, so it is a
// failure and not an error, which a failurePolicy might let pass.
func (r *manifestRun) entry(e *imageverify.Signer) error {
	key, err := r.key(e)
	if err != nil {
		return err
	}
	if r.unreadable != nil {
		return unsigned(r.unreadable.Error())
	}
	ok, err := r.claim.SignedBy(key, e.Attestor.Algorithm)
	switch {
	case err != nil:
		return err
	case !ok:
		return unsigned("no signature of the key " + key.String() + " found")
	}
	if !r.compared {
		r.compared, r.difference = true, r.compare()
	}
	if r.difference != nil {
		return r.difference
	}
	r.signed = append(r.signed, "singed by a valid signer: "+key.String()) // the spelling is Kyverno's
	return nil
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

// key is the public key of an attestor.
func (r *manifestRun) key(e *imageverify.Signer) (*manifest.Key, error) {
	a := e.Attestor
	switch {
	case a == nil:
		return nil, errors.New("keys, certificates, keyless, or a nested attestor is required")
	case a.Keyless != nil:
		return nil, errKeyless
	case a.Rekor.URL != "" && !a.Rekor.Ignore:
		return nil, errLog
	case a.Certificate != nil && a.Certificate.Certificate == "":
		return nil, errChain
	case a.Certificate != nil:
		return manifest.ParseKey(a.Certificate.Certificate)
	case a.Key.KMS != "":
		return nil, errKMS
	case a.Key.SecretName != "":
		return r.secret(a.Key)
	}
	return manifest.ParseKey(a.Key.PublicKey)
}

// secretField is where cosign keeps the public key in a Secret.
const secretField = "cosign.pub"

func (r *manifestRun) secret(k *world.KeyAttestor) (*manifest.Key, error) {
	objects := r.scope.Env.World.Objects
	if objects == nil {
		return nil, errSecrets
	}
	secret, err := objects.Get(r.scope.Env.Meter.Context(), "v1", "Secret", k.SecretNamespace, k.SecretName)
	if err != nil {
		return nil, fmt.Errorf("failed to load secret %s/%s: %w", k.SecretNamespace, k.SecretName, err)
	}
	data, _ := secret["data"].(map[string]any)
	text, _ := data[secretField].(string)
	pem, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(pem) == 0 {
		return nil, fmt.Errorf("the secret %s/%s holds no key %s", k.SecretNamespace, k.SecretName, secretField)
	}
	return manifest.ParseKey(string(pem))
}
