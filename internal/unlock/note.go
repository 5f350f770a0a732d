package unlock

import (
	"fmt"
	"time"
)

// Annotation on the main ConfigMap says until when (RFC 3339) no controller writes webhook configurations.
const Annotation = "ephor.dev/unlocked-until"

// Until reads the note; the zero time means that the cluster is not unlocked. A note that cannot be read is an error,
// and counts as none: policies are not switched off by a slip.
func Until(annotations map[string]string) (time.Time, error) {
	text, ok := annotations[Annotation]
	if !ok || text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("the annotation %s: %q is no time such as 2026-01-31T15:04:05Z", Annotation, text)
	}
	return t, nil
}
