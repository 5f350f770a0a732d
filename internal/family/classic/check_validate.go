package classic

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/value"
)

const textStringLabels = "labels and annotations supports only string values, \"use double quotes around the non string values\""

// validation checks the rule's body as a whole and adds warnings.
func (c *checker) validation(r *kyvernov1.Rule, path string) {
	if len(r.CELPreconditions) > 0 && (r.Validation == nil || r.Validation.CEL == nil) {
		c.diags.Errorf(path+".celPreconditions", "celPrecondition can only be used with validate.cel")
		c.diags.Hint("write preconditions, or move the expressions into the rule that has validate.cel")
	}
	if len(r.ImageExtractors) > 0 && len(r.VerifyImages) == 0 {
		c.diags.Errorf(path+".imageExtractors", "Invalid rule spec for rule '%s', imageExtractors can only be defined for verifyImages rule", r.Name)
		c.diags.Hint("move imageExtractors into a rule with verifyImages, or remove it: other rules read {{ images }} of Pods and their controllers")
	}
	if v := r.Validation; v != nil {
		if v.CEL != nil && len(r.Context) > 0 {
			c.diags.Errorf(path+".context", "context variables are not supported for CEL expressions in validate rules")
			c.diags.Hint("write validate.cel.variables, or a ValidatingPolicy, whose variables may look up objects")
		}
		c.stringLabels(v.RawPattern, path+".validate.pattern")
		c.stringLabels(v.RawAnyPattern, path+".validate.anyPattern")
	}
	if m := r.Mutation; m != nil {
		c.stringLabels(m.RawPatchStrategicMerge, path+".mutate.patchStrategicMerge")
	}
	if g := r.Generation; g != nil {
		c.stringLabels(g.RawData, path+".generate.data")
	}
	c.subresourceWarnings(r, path)
	c.podWarnings(r, path)
}

// Warnings about Pods that belong to controllers.
const (
	textMutatedPods = "Pods managed by workload controllers should not be directly mutated using policies. " +
		"Use the autogen feature or write policies that match Pod controllers."
	textExcludedControllers = "Policies that match Pods apply to all Pods including those created and managed by controllers " +
		"excluded from autogen. Use preconditions to exclude the Pods managed by controllers which are excluded from autogen. " +
		"Refer to https://kyverno.io/docs/policy-types/cluster-policy/autogen/ for details."
)

func (c *checker) podWarnings(r *kyvernov1.Rule, path string) {
	pods := false
	for _, f := range blockFilters(&r.MatchResources, path+".match") {
		pods = pods || slices.Contains(f.ResourceDescription.Kinds, "Pod")
	}
	if !pods {
		return
	}
	if r.Mutation != nil && r.Mutation.PatchesJSON6902 != "" {
		c.diags.Warnf(path, "%s", textMutatedPods)
		c.diags.Hint("write patchStrategicMerge, for which autogen makes rules, or match Deployment and the other controllers")
	}
	controllers, set := c.policy.Annotations[autogen.ControllersAnnotation]
	if set && controllers != "" && controllers != "none" && len(strings.Split(controllers, ",")) < len(autogen.Controllers()) {
		c.diags.Warnf(path, "%s", textExcludedControllers)
		c.diags.Hint("without rules for its controller, each of its Pods is denied, not the controller: remove the annotation, or select by labels")
	}
}

// stringLabels checks that the labels and annotations of a pattern are strings, as Kubernetes requires.
func (c *checker) stringLabels(raw *apiextensionsv1.JSON, path string) {
	v, ok := decodeRaw(raw)
	if !ok {
		return
	}
	at := []string{path}
	var inMetadata func(v any)
	inMetadata = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				inMetadata(e)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				child := v[key]
				switch child.(type) {
				case map[string]any, []any:
				default:
					continue // there is nothing below it to check
				}
				at = append(at, key)
				if bareKey(key) == "metadata" {
					c.labelsOf(child, strings.Join(at, "."))
				}
				inMetadata(child)
				at = at[:len(at)-1]
			}
		}
	}
	inMetadata(v)
}

func (c *checker) labelsOf(metadata any, path string) {
	m, _ := metadata.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if b := bareKey(key); b != "labels" && b != "annotations" {
			continue
		}
		values, _ := m[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			switch values[name].(type) {
			case bool, int64, float64:
				c.diags.Errorf(path+"."+key+"."+name, "%s", textStringLabels)
				c.diags.Hint("quote it: %s: \"%v\"", name, values[name])
			}
		}
	}
}

// bareKey removes the anchor from a pattern key.
func bareKey(key string) string {
	if i := strings.IndexByte(key, '('); i >= 0 && i <= 1 && strings.HasSuffix(key, ")") {
		return key[i+1 : len(key)-1]
	}
	return key
}

func onlyMetadataKeys(raw []byte) bool {
	v, err := value.DecodeJSON(raw)
	if err != nil {
		return true // the pattern compiler reports it
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if !onlyMetadata(e) {
				return false
			}
		}
		return true
	default:
		return onlyMetadata(v)
	}
}

func onlyMetadata(v any) bool {
	m, _ := v.(map[string]any)
	for key := range m {
		if bareKey(key) != "metadata" {
			return false
		}
	}
	return true
}

var objectField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`request\.object\.([A-Za-z0-9_-]+)`) })

// metadataConditions reports whether the keys of a legacy list of deny conditions use nothing but metadata.
func metadataConditions(raw []byte) bool {
	v, err := value.DecodeJSON(raw)
	list, ok := v.([]any)
	if err != nil || !ok {
		return true
	}
	for _, e := range list {
		m, _ := e.(map[string]any)
		key, _ := m["key"].(string)
		for _, found := range objectField().FindAllStringSubmatch(key, -1) {
			if found[1] != "metadata" {
				return false
			}
		}
	}
	return true
}

// subresourceWarnings warns that scale and status are changed through subresources.
func (c *checker) subresourceWarnings(r *kyvernov1.Rule, path string) {
	kinds, first := "", "Deployment"
	for _, f := range slices.Backward(filters(r, path)) {
		if len(f.ResourceDescription.Kinds) > 0 {
			first = f.ResourceDescription.Kinds[0]
		}
		kinds += strings.ToLower(strings.Join(f.ResourceDescription.Kinds, " ")) + " "
	}
	replicas, status := false, false
	look := func(v any) {
		walk(v, "", func(text, _ string) {
			replicas = replicas || strings.Contains(text, "replicas")
			status = status || strings.Contains(text, ".status") || bareKey(text) == "status"
		})
	}
	if v := r.Validation; v != nil {
		tree, err := ruleTree(&kyvernov1.Rule{Validation: v})
		if err != nil {
			return
		}
		validate, _ := tree["validate"].(map[string]any)
		delete(validate, "message")
		deny := validate["deny"]
		delete(validate, "deny")
		look(validate)
		before := replicas
		look(deny)
		replicas = before // conditions may read the replicas of the whole object
	}
	if r.Mutation != nil {
		if tree, err := ruleTree(&kyvernov1.Rule{Mutation: r.Mutation}); err == nil {
			look(tree["mutate"])
		}
	}
	if replicas && !strings.Contains(kinds, "scale") {
		c.diags.Warnf(path, "You are matching on replicas but not including the scale subresource in the policy.")
		c.diags.Hint("kubectl scale changes the subresource: add %s/scale to kinds", first)
	}
	if status && !strings.Contains(kinds, "status") {
		c.diags.Warnf(path, "You are matching on status but not including the status subresource in the policy.")
		c.diags.Hint("a status is changed through the subresource: add %s/status to kinds", first)
	}
}

func decodeRaw(raw *apiextensionsv1.JSON) (any, bool) {
	if raw == nil {
		return nil, false
	}
	v, err := value.DecodeJSON(raw.Raw)
	return v, err == nil
}
