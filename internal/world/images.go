package world

import (
	"context"
	"strings"
)

// Images reads what registries say about images.
type Images interface {
	// Image returns image, resolvedImage, registry, repository, identifier, manifestList, manifest and configData of the
	// image, as JSON values.
	Image(ctx context.Context, r ImageRequest) (map[string]any, error)
}

// Digests is what Images may be too: it finds which content a tag stands for, without reading it.
type Digests interface {
	// Digest is the digest of what the reference names, an index or a manifest.
	Digest(ctx context.Context, r ImageRequest) (string, error)
}

// NoImageError says that a registry answered and has no such image.
type NoImageError struct{ Reason string }

func (e *NoImageError) Error() string { return e.Reason }

// ImagesFunc adapts a function to Images.
type ImagesFunc func(context.Context, ImageRequest) (map[string]any, error)

// Image calls f.
func (f ImagesFunc) Image(ctx context.Context, r ImageRequest) (map[string]any, error) {
	return f(ctx, r)
}

// ConfineImages cuts Images to a Reach; nil stays nil. A Reach of one namespace allows the pull secrets in it only, and takes
// those that name no namespace for its own; its requests are marked as confined. Every implementation of Root gives its Images
// through it.
func ConfineImages(r Reach, next Images) Images {
	if next == nil || r.cluster {
		return next
	}
	confined := confinedImages{r, next}
	if digests, ok := next.(Digests); ok {
		return struct {
			Images
			Digests
		}{confined, confinedDigests{r, digests}}
	}
	return confined
}

type confinedImages struct {
	reach Reach
	next  Images
}

// Image implements Images.
func (c confinedImages) Image(ctx context.Context, req ImageRequest) (map[string]any, error) {
	req, err := c.reach.confineImage(req)
	if err != nil {
		return nil, err
	}
	return c.next.Image(ctx, req)
}

type confinedDigests struct {
	reach Reach
	next  Digests
}

// Digest implements Digests.
func (c confinedDigests) Digest(ctx context.Context, req ImageRequest) (string, error) {
	req, err := c.reach.confineImage(req)
	if err != nil {
		return "", err
	}
	return c.next.Digest(ctx, req)
}

// confineImage returns the request as a policy of one namespace may send it.
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

// ImageRequest names an image and how to log in to its registry.
type ImageRequest struct {
	Reference string
	Insecure  bool     // registries without TLS, or with a certificate that is not trusted
	Providers []string // default, google, azure, amazon, github
	Secrets   []string // pull secrets, in the engine's namespace unless written namespace/name
	// Object says what the evaluated object logs in with; the zero value for nothing.
	Object ObjectSecrets
	// Platform is the os/architecture[/variant] of the nodes that the image is for, as far as the object says; it chooses the image of an index.
	// Empty for linux/amd64.
	Platform string
	// Confined: a namespaced policy asks. ConfineImages sets it.
	Confined bool
}

// ObjectSecrets are the pull secrets of an object, all in its namespace. Secrets that are missing, or that may not be read, are left out.
type ObjectSecrets struct {
	// Namespace is that of the object; empty for no object.
	Namespace string
	// Names are the imagePullSecrets of the Pod, or of the template of Pods.
	Names []string
	// ServiceAccount is the one that the Pods run as, whose imagePullSecrets count too; empty for default.
	ServiceAccount string
}
