package lint

import (
	"strings"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

var unseenImage = &Check{
	Name: "unseen-image",
	Doc: "A rule about Pods misses images. It reads the images of containers and of init containers, but not those of ephemeral containers, which " +
		"`kubectl debug` adds, or of image volumes. Or it reads ephemeral containers, but no request with them reaches it: they are added by updates of " +
		"the subresource `pods/ephemeralcontainers`, which the selector `Pod` includes. A ValidatingPolicy or ImageValidatingPolicy on updates of `pods` " +
		"is asked about them, unless its annotation `ephor.dev/pod-subresources` is `false`.",
	Example: `apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata:
  name: example
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [pods]
  validations:
  - expression: object.spec.?ephemeralContainers.orValue([]).all(c, !c.?stdin.orValue(false))
`,
	program: func(p *policy.Program) (diags diag.List) {
		for _, r := range p.Rules {
			if r.Origin.IsAutogen() || r.Origin.Controllers != "" || !r.Stage.Has(policy.StageValidate) {
				continue
			}
			if r.AsksAboutPods(policy.Create, "") || r.AsksAboutPods(policy.Update, "") {
				unseenImages(&diags, r)
			}
		}
		return diags
	},
}

// laterImages are the places of images in a Pod spec that rules miss, with their names for users.
var laterImages = []struct {
	name string
	path []string
}{
	{"ephemeral containers", []string{"ephemeralContainers", "*", "image"}},
	{"image volumes (spec.volumes[].image.reference)", []string{"volumes", "*", "image"}},
}

func unseenImages(diags *diag.List, r *policy.Rule) {
	spec := specOf(r)
	if spec == nil {
		return // it may read everything
	}
	if spec.Get("ephemeralContainers") != nil && !r.AsksAboutPods(policy.Update, "ephemeralcontainers") {
		diags.Warnf(r.Path, "the rule reads ephemeralContainers, but no request with ephemeral containers reaches it")
		diags.Hint("select updates of pods/ephemeralcontainers")
	}
	if !readsImage(spec.Get("containers")) || !readsImage(spec.Get("initContainers")) {
		return // it is not about every image
	}
	var missed []string
	for _, i := range laterImages {
		if !spec.Reads(i.path...) {
			missed = append(missed, i.name)
		}
	}
	if len(missed) > 0 {
		diags.Warnf(r.Path, "the rule reads the images of containers and init containers, but not those of %s", strings.Join(missed, " and "))
	}
}

// readsImage reports whether the rule reads the images of a list of containers, and not whole containers.
func readsImage(list *value.Fields) bool {
	return list != nil && list.ItemsRead() != nil && !list.ItemsRead().All() && list.ItemsRead().Get("image") != nil
}

// specOf returns the fields of the Pod spec that the rule reads; nil if they are not known.
func specOf(r *policy.Rule) *value.Fields {
	if r.Object == nil {
		return nil
	}
	spec := r.Object.Get("spec")
	if spec == nil || spec.All() {
		return nil
	}
	return spec
}
