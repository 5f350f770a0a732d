package keys

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sync"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/fetch"
)

// maxAnswer is the maximum size of a response, in bytes.
const maxAnswer = 256 << 10

// sendJSON sends a request and decodes the response, which is JSON.
func sendJSON(req *http.Request, transport http.RoundTripper, service string, into any) error {
	body, err := body(req, transport, service)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer of %s cannot be read", service) // the response may contain a token, so it is not shown
	}
	return nil
}

// body sends a request and reads the response. It does not follow redirects, which would receive the credentials. The error
// contains neither the URL of the request nor the text of the response, except for a code.
func body(req *http.Request, transport http.RoundTripper, service string) ([]byte, error) {
	answer, text, err := fetch.Do(fetch.Client(transport), req, maxAnswer)
	switch {
	case bounded.Exceeded(err):
		return nil, fmt.Errorf("%s answers with %w", service, err)
	case answer == nil:
		return nil, fmt.Errorf("%s cannot be reached: %w", service, fetch.Bare(err))
	case err != nil:
		return nil, fmt.Errorf("the answer of %s cannot be read: %w", service, fetch.Bare(err))
	case answer.StatusCode != http.StatusOK:
		return nil, refused(service, answer.StatusCode, text)
	}
	return text, nil
}

// refused returns the error of a service that did not return a key.
func refused(service string, status int, text []byte) error {
	code := codeOf(text)
	shown := fmt.Sprintf("%d %s", status, http.StatusText(status))
	if code != "" {
		shown += " (" + code + ")"
	}
	err := fmt.Errorf("%s answers %s", service, shown)
	if status == http.StatusNotFound || status == http.StatusGone || goneCodes[code] {
		return &fetch.GoneError{Err: err}
	}
	return err
}

// goneCodes are the codes that mean that a key must no longer be used.
var goneCodes = map[string]bool{
	"NotFoundException": true, "DisabledException": true, "KMSInvalidStateException": true, "KeyDisabled": true, "KeyNotFound": true,
}

var code = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_]{1,64}$`)
})

// codeOf returns the code in the JSON error of a cloud.
func codeOf(text []byte) string {
	var in struct {
		Type  string          `json:"__type"` // AWS
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &in) != nil {
		return ""
	}
	found := in.Type
	if i := bytes.LastIndexByte([]byte(found), '#'); i >= 0 {
		found = found[i+1:]
	}
	var details struct {
		Code   any    `json:"code"`   // Azure; Google uses a number
		Status string `json:"status"` // Google
		Inner  struct {
			Code string `json:"code"` // Azure
		} `json:"innererror"`
	}
	if json.Unmarshal(in.Error, &details) == nil {
		c, _ := details.Code.(string)
		found = first(found, details.Inner.Code, details.Status, c)
	} else {
		var text string // token servers
		_ = json.Unmarshal(in.Error, &text)
		found = first(found, text)
	}
	if !code().MatchString(found) {
		return ""
	}
	return found
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// https reads a key from a URL.
func (r *Resolver) https(ctx context.Context, ref string, transport http.RoundTripper) ([]crypto.PublicKey, error) {
	u, err := url.Parse(ref)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("it is not a URL")
	}
	if u.User != nil {
		return nil, errors.New("a URL may not contain a user")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	text, err := body(req, transport, u.Host)
	if err != nil {
		return nil, err
	}
	key, err := r.parsed.key(string(text))
	if err != nil {
		return nil, err
	}
	return []crypto.PublicKey{key}, nil
}
