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
	Group string // the name of a List, or of an extractor
	Key   string // name of the container or volume, or the key that the extractor found
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

// List is a list in a Pod spec whose elements refer to images.
type List struct {
	// Group is the name of the group of its images.
	Group string
	// Field is the field of the Pod spec. Source, unless it is empty, is the field of an element that holds the object with the
	// reference, and an element without this field has no image. Reference is the field with the reference.
	Field, Source, Reference string
}

// The lists of a Pod spec whose elements refer to images: containers and volumes.
var (
	InitContainers      = List{Group: "initContainers", Field: "initContainers", Reference: "image"}
	Containers          = List{Group: "containers", Field: "containers", Reference: "image"}
	EphemeralContainers = List{Group: "ephemeralContainers", Field: "ephemeralContainers", Reference: "image"}
	ImageVolumes        = List{Group: "imageVolumes", Field: "volumes", Source: "image", Reference: "reference"}
)

var lists = []List{InitContainers, Containers, EphemeralContainers, ImageVolumes}

// Holder returns the object of an element that has the reference. It returns nil if the element is no image. ok is false if the
// element has another structure.
func (l *List) Holder(element any) (_ map[string]any, ok bool) {
	holder, ok := element.(map[string]any)
	if !ok || l.Source == "" {
		return holder, ok
	}
	source := holder[l.Source]
	if source == nil {
		return nil, true
	}
	holder, ok = source.(map[string]any)
	return holder, ok
}

// Pointer returns the JSON pointer of the reference in an element, below the Pod spec with the pointer spec.
func (l *List) Pointer(spec string, index int) string {
	p := spec + "/" + l.Field + "/" + strconv.Itoa(index) + "/"
	if l.Source != "" {
		p += l.Source + "/"
	}
	return p + l.Reference
}

// Find lists the images of the containers and image volumes of an object of the kind, in document order. A kind without a pod template
// has none. The error is for an image that cannot be parsed.
func (d Defaults) Find(kind string, object map[string]any) ([]Image, error) {
	path, ok := templates[kind]
	if !ok {
		return nil, nil
	}
	spec, pointer := podSpec(object, path), "/"+strings.Join(path, "/")
	var out []Image
	for i := range lists {
		list := &lists[i]
		elements, _ := spec[list.Field].([]any)
		for i, e := range elements {
			if e == nil {
				continue
			}
			holder, ok := list.Holder(e)
			if !ok {
				return nil, ErrConfig
			}
			if holder == nil {
				continue
			}
			// A container without a name is an error even when it has no image.
			name, ok := e.(map[string]any)["name"].(string)
			if !ok {
				return nil, ErrKey
			}
			image, _ := holder[list.Reference].(string)
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
			out = append(out, Image{Reference: r, Group: list.Group, Key: name, Pointer: list.Pointer(pointer, i)})
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
