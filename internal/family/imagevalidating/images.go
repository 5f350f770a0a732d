package imagevalidating

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/policy"
)

// places are the paths of Pod specs, by kind.
var places = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                        {"spec"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec", "template", "spec"},
	{Group: "apps", Kind: "Deployment"}:  {"spec", "template", "spec"},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec", "template", "spec"},
	{Kind: "ReplicationController"}:      {"spec", "template", "spec"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "template", "spec"},
	{Group: "batch", Kind: "Job"}:        {"spec", "template", "spec"},
	{Group: "batch", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
}

// lists are the lists of a Pod spec that refer to images. Each of them forms a group of images.
var lists = []imageref.List{imageref.Containers, imageref.InitContainers, imageref.EphemeralContainers, imageref.ImageVolumes}

// maxImages is the maximum number of images in one object. Each image is compared with matchImageReferences, and may be looked up.
const maxImages = 5000

// image is one image reference in an object.
type image struct {
	group, text string
	pointer     string // the JSON pointer of the field; empty for an image from an expression
}

// images extracts the images of objects.
type images struct{ extractors []extractor }

// extractor is an entry of spec.images.
type extractor struct {
	name       string
	expression *run.Expression
}

// extract compiles spec.images.
func (x *images) extract(c *celrule.Compiler, in []policiesv1beta1.ImageExtractor, path string) {
	for i, e := range in {
		if e.Name == "" {
			c.Diags.Required(path+"["+strconv.Itoa(i)+"].name", "an extractor needs a name")
		}
		x.extractors = append(x.extractors, extractor{e.Name, expression(c, e.Expression, path, i, typecheck.Strings, typecheck.Dyns, typecheck.Dyn)})
	}
}

// find returns the images of an object of the kind and the names of their groups. It evaluates expressions on the object with run.
func (x *images) find(kind schema.GroupKind, object map[string]any, run *celrule.Run) (out []image, names []string, err error) {
	if place, known := places[kind]; known {
		if out, err = inSpec(object, place); err != nil {
			return nil, nil, err
		}
		for i := range lists {
			names = append(names, lists[i].Group)
		}
	}
	for _, e := range x.extractors {
		v, err := run.Evaluate(e.expression)
		if err != nil {
			return nil, nil, err
		}
		plain, err := values.Plain(v)
		if err != nil {
			return nil, nil, err
		}
		list, ok := plain.([]any)
		if !ok {
			return nil, nil, fmt.Errorf("images.%s is not a list of images", e.name)
		}
		names = append(names, e.name)
		for _, element := range list {
			text, ok := element.(string)
			if !ok {
				return nil, nil, fmt.Errorf("images.%s has an element that is not a text", e.name)
			}
			if !imageref.Blank(text) {
				out = append(out, image{group: e.name, text: text})
			}
		}
	}
	if len(out) > maxImages {
		return nil, nil, fmt.Errorf("the object refers to more than %d images", maxImages)
	}
	return out, names, nil
}

// inSpec returns the images of the Pod spec at the path. A container in the template of a controller may have no image.
func inSpec(object map[string]any, place []string) (out []image, err error) {
	pointer := ""
	for _, step := range place {
		next, ok := object[step].(map[string]any)
		if !ok {
			return nil, noKey(step)
		}
		object, pointer = next, pointer+"/"+step
	}
	for i := range lists {
		list := &lists[i]
		elements, ok := object[list.Field].([]any)
		if !ok && object[list.Field] != nil {
			return nil, fmt.Errorf("%s is no list", strings.ReplaceAll(pointer[1:], "/", ".")+"."+list.Field)
		}
		for i, element := range elements {
			holder, ok := list.Holder(element)
			text, isText := holder[list.Reference].(string)
			switch {
			case !ok, holder[list.Reference] != nil && !isText:
				return nil, fmt.Errorf("%s[%d] has no image that can be read", strings.ReplaceAll(pointer[1:], "/", ".")+"."+list.Field, i)
			case imageref.Blank(text):
				continue
			}
			out = append(out, image{list.Group, text, list.Pointer(pointer, i)})
		}
	}
	return out, nil
}

// added returns the images of a Pod that its old object did not have.
func added(all []image, r *policy.Request) ([]image, error) {
	old, err := r.OldObject.Map()
	if err != nil || old == nil {
		return all, err
	}
	before, err := inSpec(old, []string{"spec"})
	if err != nil {
		return nil, err
	}
	had := make(map[string]bool, len(before))
	for _, i := range before {
		had[i.text] = true
	}
	return slices.DeleteFunc(all, func(i image) bool { return had[i.text] }), nil
}

// noKey is the error of an expression that reads a missing field. It has the text of the CEL library.
type noKey string

func (e noKey) Error() string { return "no such key: " + string(e) }

// kindOf returns the kind of an object, or otherwise if the object has none.
func kindOf(object map[string]any, otherwise schema.GroupKind) schema.GroupKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if apiVersion == "" || kind == "" {
		return otherwise
	}
	return schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
}
