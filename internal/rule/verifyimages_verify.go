package rule

import (
	"strconv"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/imageverify"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/world"
)

// verification is the state of the mutating half of a rule for one object.
type verification struct {
	*imageRule
	*scope.Scope
	images []imageTarget
	yields []policy.Yield
	object map[string]any     // the changed object; nil if nothing was changed
	pinned bool               // a digest was added
	login  world.ImageRequest // the credentials of the object, in addition to those of an entry
}

// imageTarget is the state of one image of an object during the evaluation.
type imageTarget struct {
	imageverify.Image
	// spellings are the texts with which patterns are compared.
	spellings []string
	// verdict is the joint verdict of the entries, to be recorded; empty if no entry verifies the image.
	verdict string
}

func imageTargets(images []imageref.Image, d imageref.Defaults) []imageTarget {
	out := make([]imageTarget, len(images))
	for i := range images {
		out[i] = imageTarget{Image: imageverify.NewImage(images[i]), spellings: d.Spellings(images[i].Reference)}
	}
	return out
}

// verify evaluates every image against every entry that selects it. An error concerns the rule as a whole.
func (v *verification) verify() error {
	object, err := subject(v.Scope)
	if err != nil {
		return err
	}
	kept, err := v.verifiedBefore()
	if err != nil {
		return err
	}
	imageverify.WithLogin(&v.login, v.Request, object)
	scan := v.Request.Origin == policy.FromScan
	current := object
	for n, e := range v.entries {
		if !e.acts() || scan && !e.verifies {
			continue
		}
		for i := range v.images {
			image := &v.images[i]
			selected, skipped, err := e.selects(v.Meter, &image.Image.Image, image.spellings)
			switch {
			case err != nil:
				return err
			case !selected:
				continue
			case skipped:
				v.yields = append(v.yields, v.skipped(image))
				if e.verifies {
					image.record(recordSkip)
				}
				continue
			case kept[image.Pinned()] && !(e.mutateDigest && image.Digest == ""):
				if e.verifies {
					image.record(recordPass)
				}
				continue
			}
			if current, err = v.evaluate(n, image, current, scan); err != nil {
				return err
			}
		}
	}
	if scan || anyYield(v.yields, func(y *policy.Yield) bool { return y.Status == policy.StatusError }) { // nothing is to be recorded, or some results are unknown
		return nil
	}
	if v.pinned {
		v.object = current
	}
	changed, err := v.withRecords(current)
	if changed != nil {
		v.object = changed
	}
	return err
}

// evaluate verifies one image against one entry and returns the object with its digest.
func (v *verification) evaluate(n int, image *imageTarget, object map[string]any, scan bool) (map[string]any, error) {
	e := v.entries[n]
	c := imageCheck{
		Verifier: imageverify.Verifier{Call: v.Call}, entry: e, image: image, login: &v.login,
		scope: v.WithLazy("image", func(*scope.Scope) (any, error) { return image.Document(), nil }),
	}
	if e.useCache { // for the same entry of the same version of the policy, since answers are about a digest
		c.For = imageverify.Asker(v.Program, v.name) + "\n" + strconv.Itoa(n)
	}
	verified := policy.Yield{}
	if e.verifies {
		if verified = c.signed(); len(c.Answers) > 0 {
			verified.Signatures = &policy.Signatures{Attested: c.Answers}
		}
	}
	good := verified.Status == policy.StatusNone || verified.Status == policy.StatusPass
	if good && e.mutateDigest && image.Digest == "" && !scan {
		changed, err := c.pin(object)
		switch {
		case err != nil:
			verified, good = failed("failed to update digest: ", err), false
		case verified.Status == policy.StatusNone:
			verified = policy.Yield{Status: policy.StatusPass, Message: "mutated image digest"}
		}
		if err == nil {
			object, v.pinned, image.spellings = changed, true, v.Images.Spellings(image.Reference)
		}
	}
	if verified.Status != policy.StatusNone {
		v.yields = append(v.yields, verified)
	}
	if good && e.deny != nil {
		y := e.deny(c.scope)
		v.yields = append(v.yields, y)
		good = y.Status == policy.StatusPass
	}
	if e.verifies || e.deny != nil && !good {
		if good {
			image.record(recordPass)
		} else {
			image.record(recordFail)
		}
	}
	return object, nil
}

// skipped returns the result for an image that skipImageReferences exclude. The requester sees it.
func (v *verification) skipped(image *imageTarget) policy.Yield {
	return policy.Yield{Status: policy.StatusSkip, Warn: true,
		Message: "skipping image reference image " + image.Pinned() + ", policy " + v.Program.Name + " ruleName " + v.name}
}

// verifiedBefore returns the images of the old object of an update that were verified for this rule, and that the update may keep:
// replicas change and roll-outs are undone without new requests to registries. It ignores records that prove nothing, such as those of
// another installation or of lost keys; their images are verified again.
func (v *verification) verifiedBefore() (map[string]bool, error) {
	req := v.Request
	if req.Operation != policy.Update || req.OldObject == nil || req.Origin == policy.FromScan {
		return nil, nil
	}
	old, err := req.OldObject.Map()
	if err != nil || old == nil {
		return nil, err
	}
	known, err := recordsOf(v.Call, old)
	if err != nil {
		return nil, err
	}
	recorded := known.of(v.Program, v.Rule.Name)
	if len(recorded) == 0 {
		return nil, nil
	}
	images, err := v.extractors.of(v.QueryEnv(), req.GVK.Kind, old)
	if err != nil {
		return nil, nil // records that cannot be read prove nothing
	}
	out := map[string]bool{}
	for i := range images {
		if name := images[i].Pinned(); recorded[name] == recordPass {
			out[name] = true
		}
	}
	return out, nil
}
