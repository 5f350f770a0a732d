package imageref

import (
	"fmt"
	"strconv"
	"strings"
)

// maxImages bounds the images of one object: each reference is parsed separately, and an object of the maximum request size could hold
// a hundred thousand.
const maxImages = 5000

// ErrTooMany is the error for an object that refers to too many images.
var ErrTooMany = fmt.Errorf("the object refers to more than %d images", maxImages)

// Image is one image that an object refers to.
type Image struct {
	Reference
	Group string // containers, initContainers, ephemeralContainers, or the name of an extractor
	Key   string // name of the container, or the key that the extractor found
	// Pointer is the JSON pointer of the reference; Converted: the text there is not the reference itself.
	Pointer   string
	Converted bool
}

// templates are the field paths of the pod spec, by kind.
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

// Find lists the images of the containers of an object of the kind, in document order. A kind without a pod template has none. The
// error is for an image that cannot be parsed.
func (d Defaults) Find(kind string, object map[string]any) ([]Image, error) {
	path, ok := templates[kind]
	if !ok {
		return nil, nil
	}
	spec, pointer := podSpec(object, path), "/"+strings.Join(path, "/")
	var out []Image
	for _, group := range groups {
		containers, _ := spec[group].([]any)
		for i, c := range containers {
			if c == nil {
				continue
			}
			container, ok := c.(map[string]any)
			if !ok {
				return nil, ErrConfig
			}
			// A container without a name is an error even when it has no image.
			name, ok := container["name"].(string)
			if !ok {
				return nil, ErrKey
			}
			image, _ := container["image"].(string)
			if Blank(image) {
				continue
			}
			if len(out) == maxImages {
				return nil, ErrTooMany
			}
			r, err := d.Parse(image)
			if err != nil {
				return nil, unreadable(image, err)
			}
			out = append(out, Image{Reference: r, Group: group, Key: name, Pointer: pointer + "/" + group + "/" + strconv.Itoa(i) + "/image"})
		}
	}
	return out, nil
}

// Blank reports whether a text names no image: it is empty, or has blanks only. OpenShift's image triggers fill such fields in later. The API
// server accepts blanks in Pod templates only, and no Pod has them.
func Blank(text string) bool { return strings.TrimSpace(text) == "" }

func podSpec(object map[string]any, path []string) map[string]any {
	for _, step := range path {
		object, _ = object[step].(map[string]any)
	}
	return object
}

// Pod holds the properties of an object's Pods that matter for pulling images: the platform of nodes, and logins for registries.
type Pod struct {
	// Secrets are the names of the imagePullSecrets, in the namespace of the object; ServiceAccount is the service account of the
	// Pods.
	Secrets        []string
	ServiceAccount string
	// Platform is the os/architecture of the nodes, if the node selector specifies it; empty for any.
	Platform string
}

// PodOf reads an object of a kind that has a Pod template, or is a Pod; ok is false for other kinds.
func PodOf(kind string, object map[string]any) (p Pod, ok bool) {
	path, ok := templates[kind]
	if !ok {
		return p, false
	}
	spec := podSpec(object, path)
	secrets, _ := spec["imagePullSecrets"].([]any)
	for _, s := range secrets {
		m, _ := s.(map[string]any)
		if name, _ := m["name"].(string); name != "" {
			p.Secrets = append(p.Secrets, name)
		}
	}
	p.ServiceAccount, _ = spec["serviceAccountName"].(string)
	nodes, _ := spec["nodeSelector"].(map[string]any)
	system, _ := nodes["kubernetes.io/os"].(string)
	if architecture, _ := nodes["kubernetes.io/arch"].(string); architecture != "" {
		if system == "" {
			system = "linux"
		}
		p.Platform = system + "/" + architecture
	}
	return p, true
}

// unreadable returns the error for a text that is not an image reference.
func unreadable(image string, err error) error {
	return fmt.Errorf("invalid image '%s' (%w)", image, err)
}

// Document returns the value of the variable `images`: group → key → the parts of the image. Groups without images are absent.
func Document(images []Image) map[string]any {
	out := map[string]any{}
	for i := range images {
		image := &images[i]
		group, _ := out[image.Group].(map[string]any)
		if group == nil {
			group = map[string]any{}
			out[image.Group] = group
		}
		group[image.Key] = image.Document()
	}
	return out
}

// Document returns the value of one image in the variable `images`.
func (i *Image) Document() map[string]any {
	return map[string]any{
		"reference": i.Pinned(), "referenceWithTag": i.WithTag(), "registry": i.Registry, "path": i.Path,
		"name": i.Name, "tag": i.Tag, "digest": i.Digest, "jsonPointer": i.Pointer,
	}
}
