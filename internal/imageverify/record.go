package imageverify

import (
	"maps"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// The annotations in which a resource carries what was verified. The first is for readers; the second is kept by
// policy and rule, so that no policy can be satisfied with the record of another.
const (
	annotationVerified = "kyverno.io/verify-images"
	annotationScoped   = "kyverno.io/verify-images-scoped"
)

// What is recorded of an image.
const (
	recordPass = "pass"
	recordFail = "fail"
	recordSkip = "skip"
)

// recordVersion is the version of the scoped record.
const recordVersion = 1

// verdicts are the records of images, by their full references.
type verdicts map[string]string

// add records one more verdict on an image: a failure stays, and a verification says more than a skip.
func (v verdicts) add(image, verdict string) {
	switch old := v[image]; {
	case old == recordFail, old == recordPass && verdict == recordSkip:
	default:
		v[image] = verdict
	}
}

// recordKey is how a policy is named in the scoped record: namespace/name, or /name.
func recordKey(p *policy.Program) string { return p.Namespace + "/" + p.Name }

// recordsOf are the scoped records of a rule on the object. What cannot be read is no record.
func recordsOf(object map[string]any, policyKey, rule string) verdicts {
	scoped := annotationJSON(object, annotationScoped)
	if version, ok := value.Float(scoped["version"]); !ok || version != recordVersion {
		return nil
	}
	policies, _ := scoped["policies"].(map[string]any)
	rules, _ := policies[policyKey].(map[string]any)
	images, _ := rules[rule].(map[string]any)
	out := make(verdicts, len(images))
	for image, verdict := range images {
		if text, ok := verdict.(string); ok {
			out[image] = text
		}
	}
	return out
}

// withRecords is the object with the records of a rule. Those of other policies stay; those that the rule had are replaced,
// so that none outlives its image and no forged one counts.
func withRecords(object map[string]any, policyKey, rule string, records verdicts) map[string]any {
	verified := maps.Clone(annotationJSON(object, annotationVerified))
	if verified == nil {
		verified = map[string]any{}
	}
	own := make(map[string]any, len(records))
	for image, verdict := range records {
		verified[image] = verdict
		own[image] = verdict
	}
	scoped := annotationJSON(object, annotationScoped)
	policies, _ := scoped["policies"].(map[string]any)
	rules, _ := policies[policyKey].(map[string]any)
	rules = cloneWith(rules, rule, own)
	policies = cloneWith(policies, policyKey, rules)

	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	annotations = cloneWith(annotations, annotationVerified, value.JSON(verified))
	annotations[annotationScoped] = value.JSON(map[string]any{"version": int64(recordVersion), "policies": policies})
	return cloneWith(object, "metadata", cloneWith(metadata, "annotations", annotations))
}

// cloneWith is a copy of m with one entry more; m may be nil.
func cloneWith(m map[string]any, key string, v any) map[string]any {
	out := make(map[string]any, len(m)+1)
	maps.Copy(out, m)
	out[key] = v
	return out
}

// annotationJSON reads an annotation that holds a JSON object; nil when there is none or it is malformed.
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
