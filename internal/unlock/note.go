package unlock

import (
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/names"
)

// Annotation, on the main ConfigMap, holds the time (RFC 3339) until which no controller writes webhook configurations.
const Annotation = names.Domain + "unlocked-until"

// Until reads the annotation; the zero time means that the cluster is not unlocked. An unreadable value is an error and does not unlock the
// cluster, so a typing mistake does not disable policies.
func Until(annotations map[string]string) (time.Time, error) {
	text, ok := annotations[Annotation]
	if !ok || text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("the annotation %s: %q is not a time such as 2026-01-31T15:04:05Z", Annotation, text)
	}
	return t, nil
}
