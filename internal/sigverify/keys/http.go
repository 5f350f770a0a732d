package keys

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"sync"
)

// maxAnswer is the longest answer that is read.
const maxAnswer = 256 << 10

// ask sends a request and decodes the answer, which is JSON.
func ask(req *http.Request, transport http.RoundTripper, service string, into any) error {
	body, err := body(req, transport, service)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer of %s cannot be read", service) // it may hold a token
	}
	return nil
}

// body sends a request and reads the answer. Redirects are not followed, since they would take credentials along. The error holds
// neither the address of the request nor what was answered, apart from a code.
func body(req *http.Request, transport http.RoundTripper, service string) ([]byte, error) {
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %w", service, bare(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of %s cannot be read: %w", service, bare(err))
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("%s answers with more than %d bytes", service, maxAnswer)
	case answer.StatusCode != http.StatusOK:
		return nil, refused(service, answer.StatusCode, text)
	}
	return text, nil
}

// bare takes the address of the request out of an error.
func bare(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) && u.Err != nil {
		return u.Err
	}
	return err
}

// refused says what a service answered instead of a key.
func refused(service string, status int, text []byte) error {
	code := codeOf(text)
	shown := fmt.Sprintf("%d %s", status, http.StatusText(status))
	if code != "" {
		shown += " (" + code + ")"
	}
	err := fmt.Errorf("%s answers %s", service, shown)
	if status == http.StatusNotFound || status == http.StatusGone || goneCodes[code] {
		return goneError{err}
	}
	return err
}

// goneCodes say that a key is not to be used any more.
var goneCodes = map[string]bool{
	"NotFoundException": true, "DisabledException": true, "KMSInvalidStateException": true, "KeyDisabled": true, "KeyNotFound": true,
}

var code = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_]{1,64}$`)
})

// codeOf finds the code of an error, of those that clouds put into JSON.
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
		Code   any    `json:"code"`   // Azure; a number at Google
		Status string `json:"status"` // Google
		Inner  struct {
			Code string `json:"code"` // Azure
		} `json:"innererror"`
	}
	if json.Unmarshal(in.Error, &details) == nil {
		c, _ := details.Code.(string)
		found = first(found, details.Inner.Code, details.Status, c)
	} else {
		var text string // servers of tokens
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
		return nil, errors.New("it is no URL")
	}
	if u.User != nil {
		return nil, errors.New("a URL may not hold a user")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("it is no URL")
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
