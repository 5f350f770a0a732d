package rule

import (
	"maps"
	"strconv"

	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The annotations in which a resource records what was verified. The first is for readers. The second is grouped by policy and rule, so
// that the record of one policy cannot satisfy another. The third proves the second: all users who may write the resource can write the
// others.
const (
	annotationVerified = "kyverno.io/verify-images"
	annotationScoped   = "kyverno.io/verify-images-scoped"
	annotationSeal     = names.Domain + "verified-images"
)

// sealDomain is the domain of the seals of records.
const sealDomain = "verified-images"

// The verdicts that are recorded for an image.
const (
	recordPass = "pass"
	recordFail = "fail"
	recordSkip = "skip"
)

// recordVersion is the version of the scoped record.
const recordVersion = 1

// records are the records on a resource: policy → rule → image → verdict, the digests of images that are recorded by their tags, and the
// versions of the policies: a changed policy, such as one with another key, has verified nothing yet.
type records struct {
	policies, digests, versions map[string]any
	unproved                    bool // without seals there are no versions
}

// recordKey returns the name of a policy in the records: namespace/name, or /name.
func recordKey(p *policy.Program) string { return p.Namespace + "/" + p.Name }

// recordVersionOf returns the version of a policy in the records.
func recordVersionOf(p *policy.Program) string {
	return p.UID + "/" + strconv.FormatInt(p.Generation, 10)
}

// rules returns the records of a policy in its present version, by rule.
func (r *records) rules(p *policy.Program) map[string]any {
	key := recordKey(p)
	if !r.unproved && r.versions[key] != recordVersionOf(p) {
		return nil
	}
	rules, _ := r.policies[key].(map[string]any)
	return rules
}

// of returns the verdicts of a rule of a policy in its present version, by image.
func (r *records) of(p *policy.Program, rule string) map[string]string {
	images, _ := r.rules(p)[rule].(map[string]any)
	out := make(map[string]string, len(images))
	for image, verdict := range images {
		if text, ok := verdict.(string); ok {
			out[image] = text
		}
	}
	return out
}

// all returns the verdicts of all rules together.
func (r *records) all() map[string]any {
	out := map[string]any{}
	for _, rules := range r.policies {
		rules, _ := rules.(map[string]any)
		for _, images := range rules {
			images, _ := images.(map[string]any)
			for image, verdict := range images {
				if text, ok := verdict.(string); ok {
					old, _ := out[image].(string)
					out[image] = stronger(old, text)
				}
			}
		}
	}
	return out
}

// text returns the scoped record, as Kyverno writes it.
func (r *records) text() string { return `{"version":1,"policies":` + value.JSON(r.policies) + `}` }

// recordsOf reads the records of an object. It ignores records that cannot be read, or that are not proved to be written by this
// installation for this object. Without seals, as on the command line, records need no proof. The error means that the proof cannot be
// checked.
func recordsOf(c *policy.Call, object map[string]any) (records, error) {
	scoped := annotationJSON(object, annotationScoped)
	if version, ok := value.Float(scoped["version"]); !ok || version != recordVersion {
		return records{}, nil
	}
	var r records
	r.policies, _ = scoped["policies"].(map[string]any)
	if c.World.Seals == nil {
		r.unproved = true
		return r, nil
	}
	own := annotationJSON(object, annotationSeal)
	seal, _ := own["seal"].(string)
	r.digests, _ = own["digests"].(map[string]any)
	r.versions, _ = own["versions"].(map[string]any)
	sealed, err := c.World.Seals.Sealed(c.Context(), seal, sealDomain, r.claim(c.Request, object)...)
	if err != nil || !sealed {
		return records{}, err
	}
	return r, nil
}

// claim returns what a seal proves: the object of the records, and their content. An object has no UID when it is created, and a Pod of a
// controller has no name: then the prefix of its name and its owner identify it. The text is formatted again, so its original form does not
// matter.
func (r *records) claim(req *policy.Request, object map[string]any) []string {
	metadata, _ := object["metadata"].(map[string]any)
	name := "name"
	text, _ := metadata["generateName"].(string)
	if text != "" {
		name = "generateName"
	} else {
		text, _ = metadata["name"].(string)
	}
	owner := ""
	references, _ := metadata["ownerReferences"].([]any)
	for _, reference := range references {
		reference, _ := reference.(map[string]any)
		if reference["controller"] == true {
			owner, _ = reference["uid"].(string)
		}
	}
	digests := ""
	if len(r.digests) > 0 {
		digests = value.JSON(r.digests)
	}
	return []string{req.GVK.Kind, req.Namespace, name, text, owner, r.text(), digests, value.JSON(r.versions)}
}

// record adds the verdict of one more entry: a failure overrides everything, and a verification overrides a skip.
func (t *imageTarget) record(verdict string) { t.verdict = stronger(t.verdict, verdict) }

func stronger(old, verdict string) string {
	if old == recordFail || old == recordPass && verdict == recordSkip {
		return old
	}
	return verdict
}

// withRecords returns the object with the records of the rule; nil if there is nothing to record. Proved records of other policies and
// rules stay. Those of the rule are replaced, and all others are dropped, so that no record outlives its image and no forged record counts.
func (v *verification) withRecords(object map[string]any) (map[string]any, error) {
	own, digests := map[string]any{}, map[string]any{}
	for i := range v.images {
		t := &v.images[i]
		if t.verdict == "" {
			continue
		}
		image := t.Pinned()
		old, _ := own[image].(string)
		own[image] = stronger(old, t.verdict)
		if t.Digest == "" && t.Known != "" {
			digests[image] = t.Known
		}
	}
	if len(own) == 0 {
		return nil, nil
	}
	before, err := recordsOf(v.Call, object)
	if err != nil {
		return nil, err
	}
	policyKey := recordKey(v.Program)
	r := records{
		policies: cloneWith(before.policies, policyKey, cloneWith(before.rules(v.Program), v.Rule.Name, own)), digests: digests,
		versions: cloneWith(before.versions, policyKey, recordVersionOf(v.Program)),
	}
	all := r.all()
	for image, digest := range before.digests {
		if _, now := digests[image]; !now && all[image] != nil {
			digests[image] = digest
		}
	}

	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = cloneWith(annotations, annotationVerified, value.JSON(all))
	annotations[annotationScoped] = r.text()
	delete(annotations, annotationSeal)
	if seals := v.World.Seals; seals != nil {
		seal, err := seals.Seal(v.Context(), sealDomain, r.claim(v.Request, object)...)
		if err != nil {
			return nil, err
		}
		proof := map[string]any{"seal": seal, "versions": r.versions}
		if len(r.digests) > 0 {
			proof["digests"] = r.digests
		}
		annotations[annotationSeal] = value.JSON(proof)
	}
	return cloneWith(object, "metadata", cloneWith(metadata, "annotations", annotations)), nil
}

// cloneWith returns a copy of m with one more entry; m may be nil.
func cloneWith(m map[string]any, key string, v any) map[string]any {
	out := make(map[string]any, len(m)+1)
	maps.Copy(out, m)
	out[key] = v
	return out
}

// annotationJSON decodes an annotation that holds a JSON object; nil if there is none or it is malformed.
func annotationJSON(object map[string]any, name string) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[name].(string)
	if text == "" {
		return nil
	}
	v, err := value.DecodeJSON([]byte(text))
	if err != nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}
