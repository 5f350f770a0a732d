package pss

import (
	"fmt"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/value"
)

// Violation is one check that forbids a pod.
type Violation struct {
	ID      string // the ID of the check, such as capabilities_restricted
	Control string // its name in exclusions; empty if it cannot be excluded
	Reason  string // such as `unrestricted capabilities`
	Fields  []FieldError

	check *check
}

// FieldError is one field that violates a check.
type FieldError struct {
	// Field is the path within a Pod, such as spec.containers[0].securityContext.privileged; even for controllers, so that
	// exclusions name the same field everywhere.
	Field    string
	Required bool // the field is not set; otherwise it has a forbidden value
	Value    any  // the forbidden value; nil if the field itself is forbidden

	at containerRef
}

// Path returns the path in the object that contains the pod.
func (e *FieldError) Path(pod *Pod) string { return pod.path(e.Field) }

// Text returns the error as shown in messages, with the path in the object that contains the pod.
func (e *FieldError) Text(pod *Pod) string {
	field := pod.path(e.Field)
	switch {
	case e.Required:
		return field + ": Required value"
	case e.Value == nil || e.Value == "":
		return field + ": Forbidden"
	}
	return field + " is forbidden, forbidden values found: " + fmt.Sprintf("%+v", e.Value)
}

// Text returns the violation as shown in messages.
func (v *Violation) Text(pod *Pod) string {
	fields := make([]string, len(v.Fields))
	for i := range v.Fields {
		fields[i] = v.Fields[i].Text(pod)
	}
	return "(Forbidden reason: " + v.Reason + ", field error list: [" + strings.Join(fields, ", ") + "])"
}

// Summary returns the form of violations in reports: the IDs of the checks, and a JSON list of them with the images of the
// pod if the control checks containers.
func Summary(pod *Pod, violations []Violation) (ids, asJSON string) {
	images := pod.images()
	names := make([]string, len(violations))
	b := []byte{'['}
	for i := range violations {
		v := &violations[i]
		names[i] = v.ID
		if i > 0 {
			b = append(b, ',')
		}
		b = value.AppendJSON(append(b, `{"ID":`...), v.ID)
		b = value.AppendJSON(append(b, `,"Name":`...), v.Control)
		b = append(b, `,"Images":`...)
		if v.check.control.images == imagesForbidden {
			b = append(b, "null"...)
		} else {
			b = value.AppendJSON(b, images)
		}
		b = append(b, '}')
	}
	return strings.Join(names, ","), string(append(b, ']'))
}

// images returns the pod's images, each once, with registry and tag or digest.
func (p *Pod) images() []any {
	out := []any{}
	seen := map[string]bool{}
	eachContainer(&p.Spec, func(c *container) {
		image := c.Image
		if r, err := imageref.Parse(image); err == nil {
			image = r.Registry + "/" + r.Path
			if r.Tag != "" {
				image += ":" + r.Tag
			} else {
				image += "@" + r.Digest
			}
		}
		if image != "" && !seen[image] {
			seen[image] = true
			out = append(out, image)
		}
	})
	return out
}

// containerRef locates a container in a pod; the zero value is the pod itself.
type containerRef struct {
	list  string // containers, initContainers or ephemeralContainers
	index int
}

func (p containerRef) path() string {
	if p.list == "" {
		return "spec"
	}
	return "spec." + p.list + "[" + strconv.Itoa(p.index) + "]"
}
