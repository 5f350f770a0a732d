package rule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/patch"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/scope"
	"github.com/ephor-dev/ephor/internal/world"
)

var (
	errVerification = fmt.Errorf("image verification is %w", world.ErrUnavailable)
	errRegistries   = fmt.Errorf("image registries are %w", world.ErrUnavailable)
)

// verification is the mutating half of a rule at work on one object.
type verification struct {
	*imageRule
	scope  *scope.Scope
	images []imageref.Image // with the digests that were found
	yields []policy.Yield
	object map[string]any // the changed object; nil when nothing was changed
	pinned bool           // a digest was written
	// secrets are the pull secrets of the object, as namespace/name; they are used beside those of an entry.
	secrets []string
}

// verify evaluates every image by every entry that is about it. The error is one that concerns the rule as a whole.
func (v *verification) verify() error {
	object, err := subject(v.scope)
	if err != nil {
		return err
	}
	kept, err := v.verifiedBefore()
	if err != nil {
		return err
	}
	for _, name := range imageref.PullSecrets(v.scope.Request.GVK.Kind, object) {
		v.secrets = append(v.secrets, v.scope.Request.Namespace+"/"+name)
	}
	scan := v.scope.Request.Origin == policy.FromScan
	records := verdicts{}
	current := object
	for _, e := range v.entries {
		if !e.acts() || scan && !e.verifies {
			continue
		}
		for i := range v.images {
			image := &v.images[i]
			if err = v.scope.Env.Meter.Step(e.price()); err != nil {
				return err
			}
			switch {
			case !e.about(image):
				continue
			case e.skips(image):
				v.yields = append(v.yields, v.skipped(image))
				records.add(image.String(), recordSkip)
				continue
			case kept[image.String()] && !(e.mutateDigest && image.Digest == ""):
				if e.verifies {
					records.add(image.String(), recordPass)
				}
				continue
			}
			if current, err = v.evaluate(e, image, records, current, scan); err != nil {
				return err
			}
		}
	}
	switch {
	case scan, hasError(v.yields): // nothing is to be recorded, or not all is known
	case len(records) > 0:
		v.object = withRecords(current, recordKey(v.scope.Program), v.scope.Rule.Name, records)
	case v.pinned:
		v.object = current
	}
	return nil
}

func hasError(yields []policy.Yield) bool {
	return containsFunc(yields, func(y *policy.Yield) bool { return y.Status == policy.StatusError })
}

// evaluate verifies one image by one entry and returns the object with its digest.
func (v *verification) evaluate(e *imageEntry, image *imageref.Image, records verdicts, object map[string]any, scan bool) (map[string]any, error) {
	s := v.scope.WithLazy("image", func(*scope.Scope) (any, error) { return image.Document(), nil })
	digest, verified := "", policy.Yield{}
	if e.verifies {
		verified, digest, s = v.signed(e, image, s)
	}
	good := verified.Status == policy.StatusNone || verified.Status == policy.StatusPass
	if good && e.mutateDigest && image.Digest == "" && !scan {
		changed, err := v.pin(e, image, digest, object)
		switch {
		case err != nil:
			verified, good = failed("failed to update digest: ", err), false
		case verified.Status == policy.StatusNone:
			verified = policy.Yield{Status: policy.StatusPass, Message: "mutated image digest"}
		}
		if err == nil {
			object = changed
		}
	}
	if verified.Status != policy.StatusNone {
		v.yields = append(v.yields, verified)
	}
	if good && e.deny != nil {
		y := e.deny(s)
		v.yields = append(v.yields, y)
		good = y.Status == policy.StatusPass
	}
	if e.verifies || e.deny != nil && !good {
		if good {
			records.add(image.String(), recordPass)
		} else {
			records.add(image.String(), recordFail)
		}
	}
	return object, nil
}

// signed verifies the image, or remembers that it was verified. What is remembered is about a digest: it counts for an image
// that names its digest, or that gets the remembered one, since a tag may point to another image by now. It has no statements
// that a validate block could read, and does not know that variables of the attestors changed.
func (v *verification) signed(e *imageEntry, image *imageref.Image, s *scope.Scope) (policy.Yield, string, *scope.Scope) {
	memory := s.Env.World.Verified
	pinned := image.Digest != "" || e.mutateDigest && v.scope.Request.Origin != policy.FromScan
	if !e.useCache || e.deny != nil || e.plan == nil || !pinned {
		memory = nil
	}
	var key string
	if memory != nil {
		p := s.Program
		key = strings.Join([]string{p.Kind, p.Key(), p.UID, strconv.FormatInt(p.Generation, 10), v.rule, strconv.Itoa(e.index), image.String()}, "\n")
		if digest, ok := memory.Digest(key); ok {
			return policy.Yield{Status: policy.StatusPass, Message: "verified from cache"}, digest, s
		}
	}
	check := imageCheck{entry: e, image: image, scope: s, secrets: v.secrets}
	verified, digest := check.signed()
	if memory != nil && verified.Status == policy.StatusPass {
		memory.Remember(key, digest)
	}
	return verified, digest, check.scope
}

// pin writes the digest behind the tag.
func (v *verification) pin(e *imageEntry, image *imageref.Image, digest string, object map[string]any) (map[string]any, error) {
	if image.Converted {
		return nil, errors.New("the place of the reference is not known, since a jmesPath made it")
	}
	if digest == "" {
		var err error
		if digest, err = v.resolve(e, image); err != nil {
			return nil, err
		}
	}
	pinned := image.Reference
	pinned.Digest = digest
	if _, err := v.scope.Env.Images.Parse(pinned.String()); err != nil {
		return nil, err
	}
	made, err := patch.ApplyJSON(v.scope.Env.Meter, object, []patch.Operation{{Op: "replace", Path: image.Pointer, Value: pinned.String()}})
	if err != nil {
		return nil, err
	}
	out, ok := made.(map[string]any)
	if !ok {
		return nil, errNotAnObject
	}
	image.Digest, v.pinned = digest, true
	return out, nil
}

// resolve asks the registry for the digest of a tag.
func (v *verification) resolve(e *imageEntry, image *imageref.Image) (string, error) {
	images := v.scope.Env.World.Images
	if images == nil {
		return "", errRegistries
	}
	plan, err := e.planFor(v.scope)
	if err != nil {
		return "", err
	}
	request := plan.registry(v.secrets)
	request.Reference = image.String()
	data, err := images.Image(v.scope.Env.Meter.Context(), request)
	if err != nil {
		return "", err
	}
	resolved, _ := data["resolvedImage"].(string)
	_, digest, ok := strings.Cut(resolved, "@")
	if !ok {
		return "", fmt.Errorf("the registry gave no digest for %s", image)
	}
	return digest, nil
}

// skipped is the result for an image that skipImageReferences leave out. The requester sees it.
func (v *verification) skipped(image *imageref.Image) policy.Yield {
	return policy.Yield{Status: policy.StatusSkip, Warn: true,
		Message: "skipping image reference image " + image.String() + ", policy " + v.scope.Program.Name + " ruleName " + v.rule}
}

// verifiedBefore are the images of the old object of an update that were verified for this rule then, and that the update
// may keep: replicas change and roll-outs are undone without asking registries again.
func (v *verification) verifiedBefore() (map[string]bool, error) {
	req := v.scope.Request
	if req.Operation != policy.Update || req.OldObject == nil || req.Origin == policy.FromScan {
		return nil, nil
	}
	old, err := req.OldObject.Map()
	if err != nil || old == nil {
		return nil, err
	}
	recorded := recordsOf(old, recordKey(v.scope.Program), v.scope.Rule.Name)
	if len(recorded) == 0 {
		return nil, nil
	}
	images, err := v.extractors.of(v.scope.Env, req.GVK.Kind, old)
	if err != nil {
		return nil, nil // what cannot be read was not verified
	}
	out := map[string]bool{}
	for i := range images {
		if name := images[i].String(); recorded[name] == recordPass {
			out[name] = true
		}
	}
	return out, nil
}
