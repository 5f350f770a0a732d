package imageverify

import (
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// verification is the state of the mutating half of a rule for one object.
type verification struct {
	*Rule
	call      *policy.Call
	variables policy.Variables
	images    []target
	yields    []policy.Yield
	object    map[string]any     // the changed object; nil if nothing was changed
	pinned    bool               // a digest was added
	login     world.ImageRequest // the credentials of the object, in addition to those of an entry
}

// verify evaluates every image against every entry that selects it. An error concerns the rule as a whole.
func (v *verification) verify() error {
	object, err := subject(v.call)
	if err != nil {
		return err
	}
	kept, err := v.verifiedBefore()
	if err != nil {
		return err
	}
	WithLogin(&v.login, v.call.Request, object)
	scan := v.call.Request.Origin == policy.FromScan
	current := object
	for n, e := range v.Entries {
		if !e.acts() || scan && !e.Verifies {
			continue
		}
		for i := range v.images {
			image := &v.images[i]
			about, err := e.About(v.call.Meter, image.spellings)
			if err != nil {
				return err
			}
			if !about {
				continue
			}
			skips, err := e.Skips(v.call.Meter, &image.Image.Image)
			if err != nil {
				return err
			}
			switch {
			case skips:
				v.yields = append(v.yields, v.skipped(image))
				if e.Verifies {
					image.record(recordSkip)
				}
				continue
			case kept[image.Pinned()] && !(e.MutateDigest && image.Digest == ""):
				if e.Verifies {
					image.record(recordPass)
				}
				continue
			}
			if current, err = v.evaluate(n, image, current, scan); err != nil {
				return err
			}
		}
	}
	if scan || hasError(v.yields) { // nothing is to be recorded, or some results are unknown
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

func hasError(yields []policy.Yield) bool {
	return containsFunc(yields, func(y *policy.Yield) bool { return y.Status == policy.StatusError })
}

// evaluate verifies one image against one entry and returns the object with its digest.
func (v *verification) evaluate(n int, image *target, object map[string]any, scan bool) (map[string]any, error) {
	e, session := v.Entries[n], v.Language.Begin(v.variables, n, &image.Image.Image)
	verified := policy.Yield{}
	if e.Verifies {
		verified = v.signed(n, image, session)
	}
	good := verified.Status == policy.StatusNone || verified.Status == policy.StatusPass
	if good && e.MutateDigest && image.Digest == "" && !scan {
		changed, err := v.pin(session, image, object)
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
	if good && e.Validates {
		y := session.Validate()
		v.yields = append(v.yields, y)
		good = y.Status == policy.StatusPass
	}
	if e.Verifies || e.Validates && !good {
		if good {
			image.record(recordPass)
		} else {
			image.record(recordFail)
		}
	}
	return object, nil
}

// signed verifies the image. Answers about signatures may come from the cache, for the same entry of the same version of the policy, since
// they are about a digest. Conditions and validate blocks are always evaluated.
func (v *verification) signed(n int, image *target, session Session) policy.Yield {
	c := check{Verifier: Verifier{Call: v.call}, image: image, language: session}
	if v.Entries[n].UseCache {
		c.For = Asker(v.call.Program, v.Name) + "\n" + strconv.Itoa(n)
	}
	y := c.signed(v.login)
	if len(c.Answers) > 0 {
		y.Signatures = &policy.Signatures{Attested: c.Answers}
	}
	return y
}

// Asker returns the key under which answers for a part of a policy, in its version, are remembered.
func Asker(p *policy.Program, part string) string {
	return strings.Join([]string{p.Kind, p.Key(), p.UID, strconv.FormatInt(p.Generation, 10), part}, "\n")
}

// pin adds the digest to the tag: the verified one, if the entry verifies.
func (v *verification) pin(session Session, image *target, object map[string]any) (map[string]any, error) {
	if image.Converted {
		return nil, errConverted
	}
	if image.Known == "" {
		plan, err := session.Plan()
		if err != nil {
			return nil, err
		}
		registry := Verifier{Call: v.call, Registry: plan.Registry(v.login)}
		if err := registry.Resolve(v.call.Context(), &image.Image); err != nil {
			return nil, err
		}
	}
	out, err := Pin(v.call, object, &image.Image.Image, image.Known)
	if err == nil {
		v.pinned, image.spellings = true, v.call.Images.Spellings(image.Reference)
	}
	return out, err
}

// skipped returns the result for an image that skipImageReferences exclude. The requester sees it.
func (v *verification) skipped(image *target) policy.Yield {
	return policy.Yield{Status: policy.StatusSkip, Warn: true,
		Message: "skipping image reference image " + image.Pinned() + ", policy " + v.call.Program.Name + " ruleName " + v.Name}
}

// verifiedBefore returns the images of the old object of an update that were verified for this rule, and that the update may keep:
// replicas change and roll-outs are undone without new requests to registries. It ignores records that prove nothing, such as those of
// another installation or of lost keys; their images are verified again.
func (v *verification) verifiedBefore() (map[string]bool, error) {
	req := v.call.Request
	if req.Operation != policy.Update || req.OldObject == nil || req.Origin == policy.FromScan {
		return nil, nil
	}
	old, err := req.OldObject.Map()
	if err != nil || old == nil {
		return nil, err
	}
	known, err := recordsOf(v.call, old)
	if err != nil {
		return nil, err
	}
	recorded := known.of(v.call.Program, v.call.Rule.Name)
	if len(recorded) == 0 {
		return nil, nil
	}
	images, err := v.Language.ImagesOf(v.variables, old)
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
