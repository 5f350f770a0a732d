package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Fetch is one request for a part of a repository.
type Fetch struct {
	Repository name.Repository
	// Path is the part of the path after the repository, such as manifests/latest, with its query.
	Path   string
	Accept []string // media types
	Head   bool     // only the headers are needed
	Max    int64    // the maximum size of the answer; 0 for the limit of the Client
}

// Answer is the answer of a registry.
type Answer struct {
	Header http.Header
	Body   []byte
}

// Limits of one Fetch: the number of times that a request is repeated, the longest wait before that, and how long a host that
// may lack TLS is tried with TLS the first time.
const (
	maxRetries   = 2
	maxRedirects = 5
	maxWait      = 20 * time.Second
	firstWait    = 200 * time.Millisecond
	probeTimeout = 3 * time.Second
)

// Fetch reads a part of a repository. It sends no other request, unless the registry demands a login, which is done once in a
// Session for each repository. If a registry is temporarily overloaded or broken, Fetch repeats the request after the time that
// the registry requests. A status other than 200 is a *transport.Error. It is safe for concurrent use.
func (s *Session) Fetch(ctx context.Context, f Fetch) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.options.Timeout)
	defer cancel()
	for n := 0; ; n++ {
		answer, wait, err := s.fetch(ctx, f)
		if err == nil {
			return answer, nil
		}
		if wait < 0 || n == maxRetries {
			return nil, s.Explain(err)
		}
		if wait == 0 {
			wait = firstWait << (2 * n)
		}
		deadline, _ := ctx.Deadline()
		if wait > maxWait || time.Until(deadline) < wait {
			return nil, s.Explain(err) // the answer would come too late
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, s.Explain(err)
		case <-timer.C:
		}
	}
}

// never is a wait that means not to repeat the request.
const never = time.Duration(-1)

// fetch sends the request once, with a login if necessary. The wait is the time until a retry: 0 leaves that to the caller.
func (s *Session) fetch(ctx context.Context, f Fetch) (*Answer, time.Duration, error) {
	next, scheme, err := s.door(ctx, f.Repository)
	if err != nil {
		return nil, never, err
	}
	answer, err := s.send(ctx, f, next, scheme)
	if err != nil {
		return nil, never, err
	}
	if answer.StatusCode == http.StatusUnauthorized && next == s.transport {
		challenge := challengeOf(answer, scheme)
		answer.Body.Close()
		if next, err = s.login(ctx, f.Repository, challenge, answer); err != nil {
			return nil, never, err
		}
		if answer, err = s.send(ctx, f, next, scheme); err != nil {
			return nil, never, err
		}
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusOK:
	case slices.Contains(passing, answer.StatusCode):
		return nil, retryAfter(answer.Header), transport.CheckError(answer, http.StatusOK)
	default:
		return nil, never, transport.CheckError(answer, http.StatusOK)
	}
	body, err := io.ReadAll(&limitedBody{ReadCloser: answer.Body, max: cmp.Or(f.Max, s.client.options.MaxBytes)})
	if err != nil {
		return nil, never, err
	}
	return &Answer{answer.Header, body}, 0, nil
}

// send sends the request over a transport and follows redirects. It sends a login only to the registry.
func (s *Session) send(ctx context.Context, f Fetch, next http.RoundTripper, scheme string) (*http.Response, error) {
	method := http.MethodGet
	if f.Head {
		method = http.MethodHead
	}
	url := scheme + "://" + f.Repository.RegistryStr() + "/v2/" + f.Repository.RepositoryStr() + "/" + f.Path
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", userAgent)
	for _, a := range f.Accept {
		r.Header.Add("Accept", a)
	}
	client := http.Client{Transport: next, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return &LimitError{fmt.Sprintf("redirects more than %d times", maxRedirects)}
		}
		return nil
	}}
	return client.Do(r)
}

// door returns the transport to a repository, with a login if there is one already, and the scheme: TLS unless the host is known
// to have none.
func (s *Session) door(ctx context.Context, repository name.Repository) (http.RoundTripper, string, error) {
	scheme, err := s.scheme(ctx, repository.Registry)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if next := s.logins[repository.Name()]; next != nil {
		return next, scheme, nil
	}
	return s.transport, scheme, nil
}

// scheme returns https for all registries, except those that need no TLS (on this machine or network, or by the policy's choice)
// and do not support it.
func (s *Session) scheme(ctx context.Context, host name.Registry) (string, error) {
	if host.Scheme() == "https" {
		return "https", nil
	}
	known := &s.client.schemes
	if scheme, ok := known.Get(host.RegistryStr()); ok {
		return scheme, nil
	}
	until := known.Now().Add(schemeLives)
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(probe, http.MethodGet, "https://"+host.RegistryStr()+"/v2/", nil)
	if err != nil {
		return "", err
	}
	answer, err := s.transport.RoundTrip(r)
	if err == nil {
		answer.Body.Close()
		known.Put(host.RegistryStr(), "https", until, 0)
		return "https", nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	// The host answers, but without TLS. Any other failure may be temporary.
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) || errors.Is(err, http.ErrSchemeMismatch) {
		known.Put(host.RegistryStr(), "http", until, 0)
	}
	return "http", nil
}

// login does the login that the registry demands, with the credentials for the repository.
func (s *Session) login(ctx context.Context, repository name.Repository, challenge *transport.Challenge, answer *http.Response) (http.RoundTripper, error) {
	key, err := s.keys.ResolveContext(ctx, repository)
	if err != nil {
		return nil, err
	}
	var token *transport.Token
	switch strings.ToLower(challenge.Scheme) {
	case "basic":
	case "bearer":
		scope := repository.Scope(transport.PullScope)
		if token, err = transport.Exchange(ctx, repository.Registry, key, s.transport, []string{scope}, challenge); err != nil {
			return nil, err
		}
		if token.Token == "" {
			token.Token = token.AccessToken
		}
	default:
		return nil, transport.CheckError(answer, http.StatusOK)
	}
	next, err := transport.FromToken(repository.Registry, key, s.transport, challenge, token)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logins == nil {
		s.logins = map[string]http.RoundTripper{}
	}
	s.logins[repository.Name()] = next
	return next, nil
}

// challengeOf returns the registry's first challenge that is Bearer or Basic.
func challengeOf(answer *http.Response, scheme string) *transport.Challenge {
	c := &transport.Challenge{Insecure: scheme == "http", Parameters: map[string]string{}}
	for _, line := range answer.Header.Values("WWW-Authenticate") {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if k := strings.ToLower(kind); k != "bearer" && k != "basic" {
			continue
		}
		c.Scheme = kind
		for rest != "" {
			var key, value string
			key, rest, _ = strings.Cut(strings.TrimLeft(rest, ", "), "=")
			if quoted, ok := strings.CutPrefix(rest, `"`); ok {
				value, rest, _ = strings.Cut(quoted, `"`)
			} else {
				value, rest, _ = strings.Cut(rest, ",")
			}
			c.Parameters[strings.ToLower(strings.TrimSpace(key))] = value
		}
		return c
	}
	return c
}

// retryAfter returns the wait that a registry requests; 0 if it requests none.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return min(time.Duration(seconds), 3600) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// NotFound reports whether the registry answered that it does not have what was requested.
func NotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// Unsupported reports whether the registry answered that it does not support such requests.
func Unsupported(err error) bool {
	return hasStatus(err, http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented)
}

func hasStatus(err error, statuses ...int) bool {
	var answer *transport.Error
	if !errors.As(err, &answer) {
		return false
	}
	for _, s := range statuses {
		if answer.StatusCode == s {
			return true
		}
	}
	return false
}

// doors are the logins of a Session.
type doors struct {
	mu     sync.Mutex
	logins map[string]http.RoundTripper // by repository
}
