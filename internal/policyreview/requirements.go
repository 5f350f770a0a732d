package policyreview

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// textUnmet begins the refusal of an exception that the installation does not accept.
const textUnmet = "the exception does not meet the requirements of this installation: "

// unmet returns why the installation does not accept an exception, with the words of the administrator; empty if it does. A request that
// changes neither the spec nor the annotations is accepted, so that stored exceptions can still get labels and finalizers.
func (v *Reviewer) unmet(req *policy.Request, object map[string]any, e *policy.Exception) string {
	if v.Settings == nil {
		return ""
	}
	wanted := &v.Settings().Exceptions
	annotations := annotationsOf(object)
	if old, err := req.OldObject.Map(); err == nil && old != nil && value.Equal(old["spec"], object["spec"]) && sameAnnotations(req, object) {
		return ""
	}
	var why []string
	if u := req.User; u != nil && !wanted.Permits(u.Username, u.Groups) {
		why = append(why, "the user "+u.Username+" may not write exceptions")
	}
	for _, key := range wanted.RequiredAnnotations {
		if strings.TrimSpace(annotations[key]) == "" {
			why = append(why, "the annotation "+key+" is missing")
		}
	}
	if days := wanted.MaxDays; days > 0 {
		latest := v.Now().AddDate(0, 0, days)
		switch {
		case e.Expires.IsZero():
			why = append(why, fmt.Sprintf("it has no end, and may last %d days at most", days))
		case e.Expires.After(latest):
			why = append(why, "it may end at "+latest.UTC().Format(time.RFC3339)+" at the latest")
		}
	}
	if len(why) == 0 {
		return ""
	}
	text := textUnmet + strings.Join(why, "; ")
	if wanted.Message != "" {
		text += "\n" + wanted.Message
	}
	return text
}

// sameAnnotations reports whether an update keeps the annotations, which have the end of an exception and more of what it says.
func sameAnnotations(req *policy.Request, object map[string]any) bool {
	old, err := req.OldObject.Map()
	return err == nil && maps.Equal(annotationsOf(old), annotationsOf(object))
}

func annotationsOf(object map[string]any) map[string]string {
	m, _ := object["metadata"].(map[string]any)
	all, _ := m["annotations"].(map[string]any)
	out := make(map[string]string, len(all))
	for k, v := range all {
		out[k], _ = v.(string)
	}
	return out
}
