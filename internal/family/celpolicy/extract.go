package celpolicy

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Template is a Pod template that was found inside an object, as a Pod.
type Template struct {
	// Path is its path in the object.
	Path string
	Pod  map[string]any
}

// Templates returns the Pod templates in the spec of an object, sorted by path. A Pod template is a part with a list of containers that all
// have a name and an image. A Pod gets the metadata of the object that its template does not have, such as the name, but not its labels,
// annotations and finalizers.
func Templates(m *budget.Meter, object map[string]any) ([]Template, error) {
	if err := m.Walk(object["spec"]); err != nil {
		return nil, err
	}
	var out []Template
	findTemplates(object["spec"], "spec", &out)
	parent, _ := object["metadata"].(map[string]any)
	for i := range out {
		metadata, _ := out[i].Pod["metadata"].(map[string]any)
		metadata = maps.Clone(metadata)
		if metadata == nil {
			metadata = map[string]any{}
		}
		for field, v := range parent {
			if text, isText := metadata[field].(string); (metadata[field] == nil || isText && text == "") && !slices.Contains(templateMetadata, field) {
				metadata[field] = v
			}
		}
		out[i].Pod = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": out[i].Pod["spec"]}
	}
	return out, nil
}

// OnTemplates makes the rule evaluate each Pod template in an object as a Pod. The first one that does not pass determines the result.
// failed returns the result for an unreadable object.
func OnTemplates(rule *policy.Rule, failed func(error) policy.Yield) {
	evaluate := rule.Eval
	rule.Object = nil // templates may be anywhere in the object
	rule.Eval = func(c *policy.Call) policy.Yield {
		object, err := c.Request.Subject()
		if err != nil {
			return failed(err)
		}
		templates, err := Templates(c.Meter, object)
		if err != nil {
			return failed(err)
		}
		if len(templates) == 0 {
			gvk := c.Request.RequestGVK
			return policy.Yield{Status: policy.StatusError, Message: "extraction mode: no pod template found in " + gvk.GroupVersion().String() + "/" + gvk.Kind}
		}
		var passed policy.Yield
		for _, t := range templates {
			of := *c
			of.Request = c.Request.WithObject(value.Of(t.Pod))
			y := evaluate(&of)
			switch y.Status {
			case policy.StatusFail, policy.StatusError:
				y.Message += " (pod template at " + t.Path + ")"
				return y
			case policy.StatusPass:
				passed = both(passed, y)
			case policy.StatusSkip:
				if passed.Status == policy.StatusNone {
					passed = y
				}
			}
		}
		return passed
	}
}

// both combines the results of two templates that both pass.
func both(first, second policy.Yield) policy.Yield {
	if first.Status != policy.StatusPass {
		return second
	}
	if first.Signatures == nil {
		return second
	}
	out, a, b := second, first.Signatures, second.Signatures
	if b == nil {
		b = &policy.Signatures{}
	}
	merged := policy.Signatures{Images: maps.Clone(a.Images), Attested: slices.Concat(a.Attested, b.Attested), Settle: b.Settle}
	for image, verified := range b.Images {
		if merged.Images == nil {
			merged.Images = map[string]bool{}
		}
		merged.Images[image] = merged.Images[image] || verified
	}
	if a.Settle != nil {
		merged.Settle = func(all []policy.Result) policy.Yield {
			y := a.Settle(all)
			if y.Status == policy.StatusPass && b.Settle != nil {
				return b.Settle(all)
			}
			return y
		}
	}
	out.Signatures = &merged
	return out
}

func findTemplates(v any, path string, out *[]Template) {
	m, _ := v.(map[string]any)
	if spec, ok := m["spec"].(map[string]any); ok && areContainers(spec["containers"]) {
		*out = append(*out, Template{Path: path, Pod: m})
		return
	}
	for at, e := range value.Children(v, path) {
		findTemplates(e, at, out)
	}
}

func areContainers(v any) bool {
	list, _ := v.([]any)
	for _, e := range list {
		c, _ := e.(map[string]any)
		_, named := c["name"].(string)
		_, has := c["image"].(string)
		if !named || !has {
			return false
		}
	}
	return len(list) > 0
}
