package convert

import (
	"slices"
	"strconv"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/jsonpointer"
)

// containerKinds are the kinds in which policies find the images of containers by themselves.
var containerKinds = []string{"Pod", "DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job", "CronJob"}

// extractors converts imageExtractors to spec.images: a list of images for each of their names.
func (c *converter) extractors(r *kyvernov1.Rule, spec map[string]any) {
	if len(r.ImageExtractors) == 0 {
		return
	}
	path := c.path + ".imageExtractors"
	kinds, containers := c.kindsNamed()
	var names []string
	lists := map[string][]string{}
	for _, kind := range kinds {
		for i := range r.ImageExtractors[kind] {
			x, at := &r.ImageExtractors[kind][i], path+"."+kind+"["+strconv.Itoa(i)+"]"
			if slices.Contains(containerKinds, kind) {
				c.refuse(at, "extractors of images for a kind with containers are not converted: policies in CEL always find the images of those", "")
				continue
			}
			found := c.found(x, at)
			if len(kinds)+len(containers) > 1 {
				found = expr{"object.kind == " + text(kind) + " ? " + found.within(bindsOr) + " : []", bindsTernary}
			}
			name := first(x.Name, "custom")
			if lists[name] == nil {
				names = append(names, name)
			}
			lists[name] = append(lists[name], found.text)
		}
	}
	var all, read []any
	for _, name := range names {
		expression := lists[name][0]
		if len(lists[name]) > 1 {
			expression = "(" + strings.Join(lists[name], ") + (") + ")"
		}
		all, read = append(all, map[string]any{"name": name, "expression": expression}), append(read, member("images").field(name).text)
	}
	if len(containers) > 0 {
		for _, name := range []string{"containers", "initContainers", "ephemeralContainers", "imageVolumes"} {
			read = append(read, "images.?"+name+".orValue([])")
		}
	}
	if len(all) == 0 {
		c.refuse(path, "the extractors are for no kind that the rule matches", "remove them")
		return
	}
	spec["images"] = all
	parts := make([]string, len(read))
	for i := range read {
		parts[i] = read[i].(string)
	}
	if c.extracted = member(parts[0]); len(parts) > 1 {
		c.extracted = member("(" + strings.Join(parts, " + ") + ")")
	}
}

// kindsNamed returns the kinds that the rule matches: those for which it has extractors, and those in which policies find images by themselves.
func (c *converter) kindsNamed() (extracted, containers []string) {
	of := c.policy.Spec.Rules[c.index].ImageExtractors
	for _, k := range c.matched {
		switch {
		case k.Kind == "*":
			c.refuse(c.path+".match", "which extractors of images a rule needs is not known for a wildcard", "name the kinds")
		case of[k.Kind] != nil && !slices.Contains(extracted, k.Kind):
			extracted = append(extracted, k.Kind)
		case of[k.Kind] == nil && slices.Contains(containerKinds, k.Kind) && !slices.Contains(containers, k.Kind):
			containers = append(containers, k.Kind)
		}
	}
	return extracted, containers
}

// stepsOf returns the path to the objects that have an image, and the field of the image.
func stepsOf(x *kyvernov1.ImageExtractorConfig) (steps []string, value string) {
	steps = strings.Split(strings.Trim(x.Path, "/"), "/")
	for i := range steps {
		steps[i] = jsonpointer.Unescape(steps[i])
	}
	if x.Value != "" {
		return steps, x.Value
	}
	return steps[:len(steps)-1], steps[len(steps)-1]
}

// found returns the list of images that an extractor finds.
func (c *converter) found(x *kyvernov1.ImageExtractorConfig, path string) expr {
	steps, value := stepsOf(x)
	return c.foundBelow(member("object"), steps, value, x, path)
}

func (c *converter) foundBelow(at expr, steps []string, value string, x *kyvernov1.ImageExtractorConfig, path string) expr {
	if value == "*" && !slices.Contains(steps, "*") { // a list of images
		return c.converted(optionalList(at, steps), x, path)
	}
	i := slices.Index(steps, "*")
	if i < 0 {
		there, place := yes, at
		for _, s := range steps {
			there, place = and(there, place.has(s)), place.field(s)
		}
		keyed := place.has(value)
		if x.Key != "" { // an object without the key is an error
			keyed = expr{place.field(x.Key).text + " != null ? " + keyed.within(bindsOr) + " : false", bindsTernary}
		}
		there = and(there, keyed)
		return expr{there.within(bindsOr) + " ? " + c.converted(member("["+place.field(value).text+"]"), x, path).within(bindsOr) + " : []", bindsTernary}
	}
	list, rest := optionalList(at, steps[:i]), steps[i+1:]
	v := c.variableOf(list)
	if len(rest) > 0 || value == "*" {
		return member(list.macro("map", v, c.foundBelow(member(v), rest, value, x, path)).text + ".flatten()")
	}
	element := member(v)
	kept := element.has(value)
	if x.Key != "" {
		kept = expr{element.field(x.Key).text + " != null ? " + kept.within(bindsOr) + " : false", bindsTernary}
	}
	return c.converted(member(list.text+".map("+v+", "+kept.text+", "+element.field(value).text+")"), x, path)
}

// optionalList returns the list at a path, which is empty where it is missing.
func optionalList(at expr, steps []string) expr {
	if len(steps) == 0 {
		return at
	}
	for _, s := range steps {
		at = at.optional(s)
	}
	return member(at.text + ".orValue([])")
}

// converted returns a list of images with the conversion of an extractor.
func (c *converter) converted(list expr, x *kyvernov1.ImageExtractorConfig, path string) expr {
	if x.JMESPath == "" {
		return list
	}
	v := c.fresh("reference")
	made, ok := c.query(x.JMESPath, path+".jmesPath", term{expr: member("string(" + v + ")"), shape: textShape})
	if !ok {
		return list
	}
	return list.macro("map", v, made.value())
}

// extractedDigests adds the policy that adds digests to the images that extractors find: a policy that validates images adds them to those of containers
// only.
func (c *converter) extractedDigests(r *kyvernov1.Rule, e *kyvernov1.ImageVerification, name string, spec map[string]any, path string) {
	if len(r.ImageExtractors) == 0 || !isOn(e.MutateDigest) || len(c.reasons) > 0 {
		return
	}
	if e.ImageRegistryCredentials != nil {
		c.refuse(path+".imageRegistryCredentials", "credentials for the digests of extracted images are not converted", "give them to the controllers with --imagePullSecrets")
		return
	}
	selected := and(not(member("ref.contains('@')")), c.selects(e, path))
	p := &patching{converter: c}
	var operations []string
	kinds, containers := c.kindsNamed()
	for _, kind := range kinds {
		for i := range r.ImageExtractors[kind] {
			steps, value := stepsOf(&r.ImageExtractors[kind][i])
			made := p.pinned(location{at: member("object")}, steps, value, selected)
			if len(kinds)+len(containers) > 1 {
				made = either(comparison("object.kind == "+text(kind)), made, noOperation)
			}
			operations = append(operations, made)
		}
	}
	of := map[string]any{
		"evaluation": map[string]any{"background": map[string]any{"enabled": false}},
		"mutations":  []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": sum(operations)}}},
	}
	for _, field := range []string{"matchConstraints", "matchConditions", "failurePolicy", "webhookConfiguration"} {
		if v, ok := spec[field]; ok {
			of[field] = v
		}
	}
	c.more = append(c.more, c.assembled("MutatingPolicy", name+"-digests", c.policy.Kind == "Policy", of))
}

// pinned returns the operations that add digests to the images below a place.
func (p *patching) pinned(at location, steps []string, value string, selected expr) string {
	i := slices.Index(append(slices.Clip(steps), value), "*")
	if i < 0 {
		there := yes
		for _, s := range append(slices.Clip(steps), value) {
			there, at = and(there, at.at.has(s)), at.key(s)
		}
		return p.pinnedImage(at, there, selected)
	}
	list := optionalList(at.at, steps[:i])
	for _, s := range steps[:i] {
		at = at.key(s)
	}
	at.at = list
	position := p.fresh("i")
	element := at.element(position)
	each := ""
	if i == len(steps) { // a list of images
		each = p.pinnedImage(element, yes, selected)
	} else {
		each = p.pinned(element, steps[i+1:], value, selected)
	}
	return "lists.range(size(" + list.text + ")).map(" + position + ", " + each + ").flatten()"
}

func (p *patching) pinnedImage(at location, there, selected expr) string {
	condition := and(there, member("["+at.at.text+"]").macro("exists", "ref", selected))
	return either(condition, at.operation("replace", at.at.within(bindsComparison)+" + '@' + image.getMetadata("+at.at.text+").digest"), noOperation)
}
