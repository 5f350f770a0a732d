package world

import (
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// Images reads images from registries.
type Images struct {
	// Image returns image, resolvedImage, registry, repository, identifier, manifestList, manifest and configData of the
	// image, as JSON values.
	Image Lookup[ImageRequest, map[string]any]
	// Digest resolves a tag to the digest of the referenced index or manifest, without reading the content.
	Digest Lookup[ImageRequest, string]
}

// NoImageError is the error if a registry answered that it has no such image.
type NoImageError struct{ Reason string }

func (e *NoImageError) Error() string { return e.Reason }

// Within implements Request. A Reach of one namespace allows only the pull secrets in it, which it also assumes for secrets without a
// namespace; its requests are marked as confined.
func (r ImageRequest) Within(reach Reach) (Request, error) { return reach.confineImage(r) }

// Title implements Request.
func (r ImageRequest) Title() string { return r.Reference }

// Key implements Request.
func (r ImageRequest) Key() Key { return Key{Asked: value.JSON(r)} }

// confineImage returns the request in the form that a policy of one namespace may send.
func (r Reach) confineImage(req ImageRequest) (ImageRequest, error) {
	secrets := make([]string, len(req.Secrets))
	for i, text := range req.Secrets {
		namespace, name, named := strings.Cut(strings.TrimLeft(text, "/"), "/")
		if !named {
			namespace, name = r.namespace, namespace
		}
		if !r.Allows(namespace) {
			return req, &PathError{Path: "the pull secret " + text, Namespace: r.namespace}
		}
		secrets[i] = namespace + "/" + name
	}
	if o := req.Object; o.Namespace != "" && !r.Allows(o.Namespace) {
		return req, &PathError{Path: "the pull secrets of an object in " + o.Namespace, Namespace: r.namespace}
	}
	req.Secrets, req.Confined = secrets, true
	return req, nil
}

// ImageRequest is a request about an image, with the credentials for its registry.
type ImageRequest struct {
	Reference string
	Insecure  bool     // allow registries without TLS, or with a certificate that is not trusted
	Providers []string // default, google, azure, amazon, github
	Secrets   []string // pull secrets, in the engine's namespace unless written namespace/name
	// Object holds the pull secrets of the evaluated object; the zero value for none.
	Object ObjectSecrets
	// Platform is the os/architecture[/variant] of the nodes that run the image, if the object determines it; it selects the image in an
	// index. Empty for linux/amd64.
	Platform string
	// Confined: the request is for a namespaced policy. Within sets it.
	Confined bool
}

// ObjectSecrets are the pull secrets of an object, all in its namespace. Secrets that are missing, or that may not be read, are ignored.
type ObjectSecrets struct {
	// Namespace is the object's namespace; empty for no object.
	Namespace string
	// Names are the imagePullSecrets of the Pod, or of the Pod template.
	Names []string
	// ServiceAccount is that of the Pods, whose imagePullSecrets are used, too; empty for default.
	ServiceAccount string
}
