package imageref

import (
	"fmt"
	"strconv"
)

// templates are the places of the pod spec by kind.
var templates = map[string][]string{
	"Pod":                   {"spec"},
	"DaemonSet":             {"spec", "template", "spec"},
	"Deployment":            {"spec", "template", "spec"},
	"ReplicaSet":            {"spec", "template", "spec"},
	"ReplicationController": {"spec", "template", "spec"},
	"StatefulSet":           {"spec", "template", "spec"},
	"Job":                   {"spec", "template", "spec"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template", "spec"},
}

var groups = []string{"initContainers", "containers", "ephemeralContainers"}

// Of is the value of the variable `images` for an object of the kind: group of containers → container name → the parts
// of its image. Groups without containers are absent; a kind that has no pod template gives an empty map. The error is
// an image that cannot be read.
func Of(kind string, object map[string]any) (map[string]any, error) {
	out := map[string]any{}
	path, ok := templates[kind]
	if !ok {
		return out, nil
	}
	spec, pointer := object, ""
	for _, step := range path {
		spec, _ = spec[step].(map[string]any)
		pointer += "/" + step
	}
	for _, group := range groups {
		containers, _ := spec[group].([]any)
		images := map[string]any{}
		for i, c := range containers {
			container, _ := c.(map[string]any)
			name, _ := container["name"].(string)
			image, _ := container["image"].(string)
			if name == "" || image == "" {
				continue
			}
			r, err := Parse(image)
			if err != nil {
				return nil, fmt.Errorf("invalid image config: %w", err)
			}
			images[name] = r.document(pointer + "/" + group + "/" + strconv.Itoa(i) + "/image")
		}
		if len(images) > 0 {
			out[group] = images
		}
	}
	return out, nil
}

func (r Reference) document(pointer string) map[string]any {
	return map[string]any{
		"reference": r.Pinned(), "referenceWithTag": r.WithTag(), "registry": r.Registry, "path": r.Path,
		"name": r.Name, "tag": r.Tag, "digest": r.Digest, "jsonPointer": pointer,
	}
}
