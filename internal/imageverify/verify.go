package imageverify

import (
	"strconv"
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/policy"
)

// verification is the mutating half of a rule at work on one object.
type verification struct {
	*Rule
	call      *policy.Call
	variables policy.Variables
	images    []imageref.Image // with the digests that were found
	yields    []policy.Yield
	object    map[string]any // the changed object; nil when nothing was changed
	pinned    bool           // a digest was written
	// secrets are the pull secrets of the object, as namespace/name; they are used beside those of an entry.
	secrets []string
}

// verify evaluates every image by every entry that is about it. The error is one that concerns the rule as a whole.
func (v *verification) verify() error {
	object, err := subject(v.call)
	if err != nil {
		return err
	}
	kept, err := v.verifiedBefore()
	if err != nil {
		return err
	}
	for _, name := range imageref.PullSecrets(v.call.Request.GVK.Kind, object) {
		v.secrets = append(v.secrets, v.call.Request.Namespace+"/"+name)
	}
	scan := v.call.Request.Origin == policy.FromScan
	records := verdicts{}
	current := object
	for n, e := range v.Entries {
		if !e.acts() || scan && !e.Verifies {
			continue
		}
		for i := range v.images {
			image := &v.images[i]
			if err = v.call.Meter.Step(e.Price()); err != nil {
				return err
			}
			switch {
			case !e.About(image):
				continue
			case e.Skips(image):
				v.yields = append(v.yields, v.skipped(image))
				records.add(image.String(), recordSkip)
				continue
			case kept[image.String()] && !(e.MutateDigest && image.Digest == ""):
				if e.Verifies {
					records.add(image.String(), recordPass)
				}
				continue
			}
			if current, err = v.evaluate(n, image, records, current, scan); err != nil {
				return err
			}
		}
	}
	switch {
	case scan, hasError(v.yields): // nothing is to be recorded, or not all is known
	case len(records) > 0:
		v.object = withRecords(current, recordKey(v.call.Program), v.call.Rule.Name, records)
	case v.pinned:
		v.object = current
	}
	return nil
}

func hasError(yields []policy.Yield) bool {
	return containsFunc(yields, func(y *policy.Yield) bool { return y.Status == policy.StatusError })
}

// evaluate verifies one image by one entry and returns the object with its digest.
func (v *verification) evaluate(n int, image *imageref.Image, records verdicts, object map[string]any, scan bool) (map[string]any, error) {
	e, session := v.Entries[n], v.Language.Begin(v.variables, n, image)
	digest, verified := "", policy.Yield{}
	if e.Verifies {
		verified, digest = v.signed(n, image, session)
	}
	good := verified.Status == policy.StatusNone || verified.Status == policy.StatusPass
	if good && e.MutateDigest && image.Digest == "" && !scan {
		changed, err := v.pin(session, image, digest, object)
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
func (v *verification) signed(n int, image *imageref.Image, session Session) (policy.Yield, string) {
	e, memory := v.Entries[n], v.call.World.Verified
	pinned := image.Digest != "" || e.MutateDigest && v.call.Request.Origin != policy.FromScan
	if !e.UseCache || e.Validates || e.Varies || !pinned {
		memory = nil
	}
	var key string
	if memory != nil {
		p := v.call.Program
		key = strings.Join([]string{p.Kind, p.Key(), p.UID, strconv.FormatInt(p.Generation, 10), v.Name, strconv.Itoa(n), image.String()}, "\n")
		if digest, ok := memory.Digest(key); ok {
			return policy.Yield{Status: policy.StatusPass, Message: "verified from cache"}, digest
		}
	}
	asked := check{call: v.call, image: image, language: session, secrets: v.secrets}
	verified, digest := asked.signed()
	if memory != nil && verified.Status == policy.StatusPass {
		memory.Remember(key, digest)
	}
	return verified, digest
}

// pin writes the digest behind the tag.
func (v *verification) pin(session Session, image *imageref.Image, digest string, object map[string]any) (map[string]any, error) {
	if image.Converted {
		return nil, errConverted
	}
	if digest == "" {
		plan, err := session.Plan()
		if err != nil {
			return nil, err
		}
		if digest, err = Resolve(v.call, image, plan.Registry(v.secrets)); err != nil {
			return nil, err
		}
	}
	out, err := Pin(v.call, object, image, digest)
	v.pinned = v.pinned || err == nil
	return out, err
}

// skipped is the result for an image that skipImageReferences leave out. The requester sees it.
func (v *verification) skipped(image *imageref.Image) policy.Yield {
	return policy.Yield{Status: policy.StatusSkip, Warn: true,
		Message: "skipping image reference image " + image.String() + ", policy " + v.call.Program.Name + " ruleName " + v.Name}
}

// verifiedBefore are the images of the old object of an update that were verified for this rule then, and that the update
// may keep: replicas change and roll-outs are undone without asking registries again.
func (v *verification) verifiedBefore() (map[string]bool, error) {
	req := v.call.Request
	if req.Operation != policy.Update || req.OldObject == nil || req.Origin == policy.FromScan {
		return nil, nil
	}
	old, err := req.OldObject.Map()
	if err != nil || old == nil {
		return nil, err
	}
	recorded := recordsOf(old, recordKey(v.call.Program), v.call.Rule.Name)
	if len(recorded) == 0 {
		return nil, nil
	}
	images, err := v.Language.ImagesOf(v.variables, old)
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
