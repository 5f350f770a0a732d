package pss

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/wildcard"
)

// Exclusions are compiled exemptions from controls: the exclude list of a rule, or the podSecurity list of an exception.
type Exclusions []exclusion

type exclusion struct {
	control string
	images  []wildcard.Pattern // none: the exclusion is for the fields of the pod itself
	field   *fieldPattern      // nil: every field of the control
	values  []wildcard.Pattern
}

func compileExclusion(in *kyvernov1.PodSecurityStandard) exclusion {
	x := exclusion{control: in.ControlName}
	for _, image := range in.Images {
		x.images = append(x.images, wildcard.Compile(image))
	}
	if in.RestrictedField != "" {
		x.field = newFieldPattern(in.RestrictedField)
	}
	for _, v := range in.Values {
		x.values = append(x.values, wildcard.Compile(v))
	}
	return x
}

// Except removes from violations of the pod what the exclusions exempt; a violation without remaining fields is removed.
// It changes neither list. The error wraps budget.ErrExhausted; meter may be nil.
func (s *Standard) Except(pod *Pod, meter *budget.Meter, violations []Violation, lists ...Exclusions) ([]Violation, error) {
	var out []Violation
	r := &excluder{pod: pod, meter: meter}
	for i := range violations {
		v := violations[i]
		v.Fields = slices.Clone(v.Fields)
		for _, list := range lists {
			for k := range list {
				if x := &list[k]; x.control == v.Control && len(v.Fields) > 0 {
					r.apply(x, &v)
				}
			}
		}
		if r.err != nil {
			return nil, r.err
		}
		if len(v.Fields) > 0 || len(violations[i].Fields) == 0 {
			out = append(out, v)
		}
	}
	return out, nil
}

// excluder applies exclusions to the violations of a pod.
type excluder struct {
	pod   *Pod
	meter *budget.Meter
	err   error // the budget is exhausted
}

// pays charges steps. It returns false if the budget is exhausted.
func (r *excluder) pays(steps int) bool {
	if r.err == nil {
		r.err = r.meter.Step(steps)
	}
	return r.err == nil
}

// matches reports whether one of the patterns matches.
func (r *excluder) matches(patterns []wildcard.Pattern, s string) bool {
	for i := range patterns {
		if !r.pays(patternSteps + patterns[i].Cost(s)) {
			return false
		}
		if patterns[i].Match(s) {
			return true
		}
	}
	return false
}

// The cost of comparing a text with a pattern, and a field with that of an exclusion.
const patternSteps, namedSteps = 2, 30

// apply removes the fields of the violation that the exclusion exempts.
func (r *excluder) apply(x *exclusion, v *Violation) {
	var ofPod map[string]bool
	if len(x.images) == 0 {
		ofPod = r.exemptOfPod(x, v.check)
	}
	v.Fields = slices.DeleteFunc(v.Fields, func(e FieldError) bool { return r.exempts(x, &e, ofPod) })
}

func (r *excluder) exempts(x *exclusion, e *FieldError, ofPod map[string]bool) bool {
	if !r.names(x, e) {
		return false
	}
	if len(x.images) == 0 {
		return ofPod[anyIndex(e.Field)]
	}
	c := r.pod.containerAt(e.at)
	return c != nil && r.matches(x.images, c.Image)
}

// names reports whether the exclusion covers the field and its values.
func (r *excluder) names(x *exclusion, e *FieldError) bool {
	return r.pays(namedSteps) && (x.field == nil || x.field.match(e.Field) && r.covers(x, e))
}

// covers reports whether the values of the exclusion cover every value of the error.
func (r *excluder) covers(x *exclusion, e *FieldError) bool {
	if len(x.values) == 0 {
		return true
	}
	for _, v := range e.values() {
		if !r.matches(x.values, v) {
			return false
		}
	}
	return true
}

// values returns the offending values as text. A missing field has the empty text, so that an exclusion of a value does
// not exempt from setting one.
func (e *FieldError) values() []string {
	switch v := e.Value.(type) {
	case nil:
		if e.Required {
			return []string{""}
		}
		return nil
	case string:
		return []string{v}
	case []string:
		return v
	default:
		return []string{fmt.Sprint(v)}
	}
}

// exemptOfPod returns the fields, with any index, that an exclusion without images exempts. It repeats the check on the
// pod with one container that sets nothing in place of all containers, and exempts the errors that it finds then. These
// are compared by field and not by text: a field that the empty container lacks is also exempt in a container that sets
// it to a forbidden value. Only the field list containers is repeated, so fields of initContainers are never exempt here.
func (r *excluder) exemptOfPod(x *exclusion, c *check) map[string]bool {
	spec := r.pod.Spec
	spec.InitContainers, spec.EphemeralContainers, spec.Containers = nil, nil, []corev1.Container{{}}
	if !r.pays(r.pod.nodes) || c.run(&r.pod.Meta, &spec).Allowed {
		return nil
	}
	out := map[string]bool{}
	found, err := c.locate(&r.pod.Meta, &spec, r.meter)
	if err != nil {
		r.err = err
		return nil
	}
	for i := range found {
		if e := &found[i]; r.names(x, e) {
			out[anyIndex(e.Field)] = true
		}
	}
	return out
}

func (p *Pod) containerAt(at containerRef) *corev1.Container {
	switch at.list {
	case "initContainers":
		return &p.Spec.InitContainers[at.index]
	case "containers":
		return &p.Spec.Containers[at.index]
	case "ephemeralContainers":
		return (*corev1.Container)(&p.Spec.EphemeralContainers[at.index].EphemeralContainerCommon)
	}
	return nil
}

// fieldPattern is a restrictedField: a field of a Pod in which indexes are written [*].
type fieldPattern struct {
	source  string
	pattern wildcard.Pattern // for annotations, whose keys may have wildcards
	meta    bool
}

func newFieldPattern(source string) *fieldPattern {
	plain := strings.NewReplacer(`"`, "", `'`, "").Replace(source)
	return &fieldPattern{source: plain, pattern: wildcard.Compile(plain), meta: strings.HasPrefix(plain, "metadata.")}
}

func (p *fieldPattern) match(field string) bool {
	if p.meta || field == p.source {
		return field == p.source || p.pattern.Match(field)
	}
	return anyIndex(field) == p.source
}

// anyIndex replaces the indexes in a field by [*].
func anyIndex(field string) string {
	parts := strings.Split(field, "[")
	for i, part := range parts[1:] {
		if index, rest, ok := strings.Cut(part, "]"); ok {
			if _, err := strconv.Atoi(index); err == nil {
				parts[i+1] = "*]" + rest
			}
		}
	}
	return strings.Join(parts, "[")
}
