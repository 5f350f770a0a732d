package env

import (
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-containerregistry/pkg/name"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

var imageType = cel.OpaqueType("policies.Image")

var libImage = &Library{
	Name:  "image",
	Doc:   "Image references. Docker Hub is index.docker.io, and the repositories of its official images begin with library/.",
	Kinds: withImages,
	Functions: append([]Function{
		{
			Names:     []string{"parseImageReference", "image"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: imageType}},
			Doc:       "Parses an image reference.",
			cost:      costOfImage,
			Example:   "parseImageReference('nginx:1.25').tag()",
			Result:    `"1.25"`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				r, err := parseImage(values.Text(args[0]))
				if err != nil {
					return types.WrapErr(err)
				}
				return r
			},
		},
		{
			Names:     []string{"isImage"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.BoolType}},
			Doc:       "Whether a string is a valid image reference.",
			cost:      costOfImage,
			Example:   "isImage('nginx:1.25')",
			Result:    `true`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				_, err := parseImage(values.Text(args[0]))
				return types.Bool(err == nil)
			},
		},
	}, imageParts()...),
}

// costOfImage is the cost of reading an image reference, whose length is limited.
func costOfImage(args []ref.Val) int {
	return price.NodeSteps*30 + price.Steps(min(len(values.Text(args[0])), maxImage), 4)
}

func imageParts() []Function {
	part := func(name, doc string, result *cel.Type, of func(image) ref.Val) Function {
		return Function{
			Names: []string{name}, Member: true, Doc: doc, Example: "image('nginx:1.25')." + name + "()", Result: partsOfNginx[name],
			Overloads: []Overload{{Args: []*cel.Type{imageType}, Result: result}},
			call:      func(_ *Scope, args []ref.Val) ref.Val { return of(args[0].(image)) },
		}
	}
	text := func(name, doc string, of func(image) string) Function {
		return part(name, doc, cel.StringType, func(i image) ref.Val { return types.String(of(i)) })
	}
	return []Function{
		text("registry", "Returns the registry.", func(i image) string { return i.registry }),
		text("repository", "Returns the repository.", func(i image) string { return i.repository }),
		text("identifier", "Returns the tag, the digest, or both as tag@digest.", func(i image) string {
			if i.digest != "" && i.tag != "" {
				return i.tag + "@" + i.digest
			}
			return i.digest + i.tagOr()
		}),
		text("identifierWithSeparator", "Returns @ and the digest if there is one, otherwise : and the tag.", func(i image) string {
			if i.digest != "" {
				return "@" + i.digest
			}
			return ":" + i.tagOr()
		}),
		text("tag", "Returns the tag; latest if there is neither a tag nor a digest.", func(i image) string { return i.tagOr() }),
		text("digest", "Returns the digest; empty if there is none.", func(i image) string { return i.digest }),
		part("containsDigest", "Whether the reference has a digest.", cel.BoolType, func(i image) ref.Val { return types.Bool(i.digest != "") }),
	}
}

// partsOfNginx are the parts of nginx:1.25, for the examples in the documentation.
var partsOfNginx = map[string]string{
	"registry": `"index.docker.io"`, "repository": `"library/nginx"`, "identifier": `"1.25"`, "identifierWithSeparator": `":1.25"`, "tag": `"1.25"`,
	"digest": `""`, "containsDigest": `false`,
}

// image is a parsed reference.
type image struct{ text, registry, repository, tag, digest string }

func (i image) tagOr() string {
	if i.tag == "" && i.digest == "" {
		return "latest"
	}
	return i.tag
}

// maxImage is the maximum length of a text that is parsed. No image reference is that long.
const maxImage = 4096

func parseImage(text string) (image, error) {
	if len(text) > maxImage {
		return image{}, imageError(text[:maxImage])
	}
	r, err := name.ParseReference(text)
	if err != nil {
		return image{}, imageError(text)
	}
	if path := r.Context().RepositoryStr(); len(strings.TrimPrefix(path, implied(r.Context(), text))) < minRepository {
		return image{}, imageError(text)
	}
	out := image{text: text, registry: r.Context().RegistryStr(), repository: r.Context().RepositoryStr()}
	before, digest, pinned := strings.Cut(text, "@")
	if pinned {
		out.digest = digest
	}
	if at := strings.LastIndexByte(before, ':'); at > strings.LastIndexByte(before, '/') {
		out.tag = before[at+1:]
	}
	return out, nil
}

// minRepository is the minimum number of characters in the name of a repository.
const minRepository = 2

// implied returns the prefix that the library adds to the names of Docker's official images.
func implied(r name.Repository, text string) string {
	const official = "library/"
	if r.RegistryStr() == name.DefaultRegistry && !strings.Contains(text, official) {
		return official
	}
	return ""
}

type imageError string

func (e imageError) Error() string { return "could not parse reference: " + string(e) }

// ConvertToNative implements the library's interface.
func (i image) ConvertToNative(t reflect.Type) (any, error) {
	return values.Opaque{Kind: imageType}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (i image) ConvertToType(t ref.Type) ref.Val { return values.Opaque{Kind: imageType}.Convert(i, t) }

// Equal implements the library's interface. It compares the original texts.
func (i image) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(i) == other) }

// Type implements the library's interface.
func (i image) Type() ref.Type { return imageType }

// Value implements the library's interface.
func (i image) Value() any { return i.text }
