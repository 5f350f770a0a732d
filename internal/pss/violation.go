package pss

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/value"
)

// Violation is one check that forbids a pod.
type Violation struct {
	ID      string // of the check, such as capabilities_restricted
	Control string // its name in exclusions; empty when it cannot be excluded
	Reason  string // such as `unrestricted capabilities`
	Fields  []FieldError

	check *check
}

// FieldError is one field to blame.
type FieldError struct {
	// Field is the path within a Pod, such as spec.containers[0].securityContext.privileged; also for controllers, so
	// that exclusions mean the same field everywhere.
	Field    string
	Required bool // the field is not set; otherwise it holds what is forbidden
	Value    any  // what is forbidden; nil when that is the field itself

	at place
}

// Path is the path in the object that the pod was taken from.
func (e *FieldError) Path(pod *Pod) string { return pod.path(e.Field) }

// Text is the error as messages show it, with the path in the object that the pod was taken from.
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

// Text is the violation as messages show it.
func (v *Violation) Text(pod *Pod) string {
	fields := make([]string, len(v.Fields))
	for i := range v.Fields {
		fields[i] = v.Fields[i].Text(pod)
	}
	return "(Forbidden reason: " + v.Reason + ", field error list: [" + strings.Join(fields, ", ") + "])"
}

// Summary says what reports show of violations: the ids of the checks, and a JSON list of them with the images
// of the pod where the control looks at containers.
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

// images are the pod's images, each once, with registry and tag or digest.
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

// place is where in a pod a container is; the zero place is the pod itself.
type place struct {
	list  string // containers, initContainers or ephemeralContainers
	index int
}

func (p place) path() string {
	if p.list == "" {
		return "spec"
	}
	return "spec." + p.list + "[" + strconv.Itoa(p.index) + "]"
}
