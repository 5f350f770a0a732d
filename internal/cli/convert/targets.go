package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/value"
)

// existingTargets is the number of resources that are created for rules with targets: every trigger sees all of them.
const existingTargets = 24

// targets creates the existing resources of a rule with targets. It gives their names to triggers, since many rules select targets with the
// name of the trigger. s is the sampler of the triggers.
func (p prover) targets(s *sampler, original map[string]any, triggers []map[string]any) []map[string]any {
	of := *s
	of.kinds = nil
	spec, _ := original["spec"].(map[string]any)
	rules, _ := spec["rules"].([]any)
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		mutate, _ := rule["mutate"].(map[string]any)
		list, _ := mutate["targets"].([]any)
		for _, t := range list {
			target, _ := t.(map[string]any)
			apiVersion, _ := target["apiVersion"].(string)
			kind, _ := target["kind"].(string)
			group, version, grouped := strings.Cut(apiVersion, "/")
			if !grouped {
				group, version = "", apiVersion
			}
			kind, _, _ = strings.Cut(kind, "/")
			for _, f := range p.known.Find(group, version, kind, "") {
				if !slices.ContainsFunc(of.kinds, func(k schema.Found) bool { return k.String() == f.String() }) {
					of.kinds = append(of.kinds, f)
				}
			}
		}
	}
	for i, o := range triggers {
		located(o, i)
	}
	var out []map[string]any
	seen := map[string]bool{}
	for i, o := range of.objects(existingTargets) {
		located(o, i)
		if n := len(triggers); n > 0 && i%2 == 0 { // many rules select targets in the namespace of the trigger
			metadata, _ := o["metadata"].(map[string]any)
			trigger, _ := triggers[i*n/existingTargets]["metadata"].(map[string]any)
			if metadata["namespace"] != nil && trigger["namespace"] != nil {
				metadata["namespace"] = trigger["namespace"]
			}
		}
		if key := identity(o); !seen[key] {
			seen[key], out = true, append(out, o)
		}
	}
	return out
}

// located gives an object a name and a namespace that the API server accepts, as one of existingTargets.
func located(o map[string]any, i int) {
	metadata, _ := o["metadata"].(map[string]any)
	if name, _ := metadata["name"].(string); strings.HasPrefix(name, "sample-") || len(validation.IsDNS1123Subdomain(name)) > 0 {
		metadata["name"] = fmt.Sprintf("sample-%d", i%existingTargets)
	}
	if namespace, _ := metadata["namespace"].(string); len(validation.IsDNS1123Label(namespace)) > 0 {
		metadata["namespace"] = "default"
	}
}

func identity(o map[string]any) string {
	metadata, _ := o["metadata"].(map[string]any)
	return fmt.Sprint(o["apiVersion"], " ", o["kind"], " ", metadata["namespace"], "/", metadata["name"])
}

// ofTarget finds the paths of targets in expressions.
var ofTarget = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\btarget((?:\.[A-Za-z_][A-Za-z0-9_]*)+)`) })

// targetFields adds the fields of targets that an expression reads.
func (s *sampler) targetFields(text string) {
	for _, m := range ofTarget().FindAllStringSubmatch(text, -1) {
		f, names := s.reads, strings.Split(m[1][1:], ".")
		for _, name := range names {
			f = f.Member(name)
		}
		if len(names) == 3 && names[0] == "metadata" && (names[1] == "labels" || names[1] == "annotations") {
			s.labels = append(s.labels, names[2])
		}
	}
}

// changed adds the changes of the targets. A target with an error counts as one that is changed to an error.
func (v *verdict) changed(answers []offline.Answer) {
	var texts []string
	for i := range answers {
		for _, w := range answers[i].Work {
			v.applied = true
			if w.Err != nil && len(w.Targets) == 0 {
				v.violated, v.failed, v.message = true, true, w.Err.Error()
				return
			}
			for _, t := range w.Targets {
				switch {
				case t.Status == policy.StatusError || t.Status == policy.StatusFail:
					texts = append(texts, identity(t.Before)+": error")
				case t.After != nil && value.JSON(value.Unordered(t.After)) != value.JSON(value.Unordered(t.Before)):
					texts = append(texts, identity(t.Before)+": "+value.JSON(value.Unordered(t.After)))
				}
			}
		}
	}
	if len(texts) > 0 {
		slices.Sort(texts)
		v.violated, v.failed, v.made = true, false, strings.Join(texts, " ")
		return
	}
	v.failed = v.violated
}
