package taped

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// The methods of lookups. Roles and Labels are about the request itself; Labels is also a member of a World.
const (
	Roles       = "roles"
	Labels      = "labels"
	Access      = "access"
	Global      = "global"
	object      = "object"
	list        = "list"
	find        = "find"
	namespace   = "namespace"
	api         = "api"
	resource    = "resource"
	service     = "service"
	http        = "http"
	image       = "image"
	imageDigest = "digest"
	verify      = "verify"
	statements  = "statements"
	blob        = "blob"
	seal        = "seal"
	sealed      = "sealed"
	namespaced  = "namespaced"
	plural      = "plural"
	served      = "served"
	host        = "host"
	random      = "random"
)

// words returns the canonical form of a list of texts.
func words(texts ...string) string {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return value.JSON(out)
}

// apiQuestion returns the question for a call of the API server. The body is hidden: the body of a TokenReview contains a credential.
func apiQuestion(method string, r world.APIRequest) question {
	q := question{method: method, asked: words(r.Method, r.Path.String()), secrets: r.OfSecrets()}
	if r.Body != nil {
		q.hidden = []string{value.JSON(r.Body)}
	}
	return q
}

// serviceQuestion returns the question for a call of a service. Only the method, the scheme, the host and the names of headers are visible:
// paths and queries of webhooks often hold a token.
func serviceQuestion(method string, r world.ServiceRequest) question {
	at, guarded := "", []string{r.URL}
	if u, err := url.Parse(r.URL); err == nil {
		at = u.Scheme + "://" + u.Host
		guarded = []string{u.EscapedPath(), u.Path, u.RawQuery}
		if password, has := u.User.Password(); has {
			guarded = append(guarded, password, u.User.String())
		}
	}
	visible := []string{r.Method, at, strconv.FormatBool(r.VariableHost)}
	hidden := []string{r.URL, r.CABundle, value.JSON(r.Body)}
	for _, h := range r.Headers {
		visible, hidden = append(visible, h.Name), append(hidden, h.Value)
		if !strings.EqualFold(h.Name, "Content-Type") && !strings.EqualFold(h.Name, "Accept") {
			guarded = append(guarded, h.Value)
		}
	}
	return question{method: method, asked: words(visible...), hidden: hidden, guarded: guarded}
}

func imageQuestion(method string, r world.ImageRequest) question {
	return question{method: method, asked: value.JSON(r)}
}

// signatureQuestion returns the question for a check of signatures, without the fields that only change how the answer is found.
func signatureQuestion(method string, r world.SignatureRequest) question {
	r.For, r.Remembered, r.Findings = "", nil, nil
	return question{method: method, asked: value.JSON(r)}
}

func accessQuestion(r world.AccessRequest) question {
	extra := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(r.Extra)) {
		extra[k] = words(r.Extra[k]...)
	}
	return question{method: Access, asked: value.JSON([]any{
		r.Username, r.UID, words(r.Groups...), extra, r.Verb, r.Group, r.Version, r.Resource, r.Subresource, r.Namespace, r.Name, r.Path,
	})}
}

// RolesOf returns the canonical request for the roles of a user for requests in a namespace.
func RolesOf(user string, groups []string, namespace string) string {
	return words(user, words(groups...), namespace)
}

// Personal reports whether a lookup of the method names the requester.
func Personal(method string) bool { return method == Roles || method == Access }

// Limits of the stored form of a request.
const (
	maxAsked  = 1 << 10
	keptAsked = 512
)

// Brief returns the form in which Asked is stored. It shortens a long text to its beginning and its digest.
func Brief(asked string) string {
	if len(asked) <= maxAsked {
		return asked
	}
	sum := sha256.Sum256([]byte(asked))
	return value.Clip(asked, keptAsked) + hex.EncodeToString(sum[:])
}

// Digest returns the salted digest of the hidden parts of a request, which is stored in their place; empty if nothing is hidden.
func Digest(salt []byte, method, reach, asked string, hidden []string) string {
	if len(hidden) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, salt)
	q := question{method: method, reach: reach, asked: asked, hidden: hidden}
	mac.Write([]byte(q.key()))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
