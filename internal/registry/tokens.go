package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"ephor.invalid/ephor/internal/fetch"
)

// Times and sizes of the cached data about registries.
const (
	challengeLives = time.Hour // how long a registry's way to log in is cached
	maxAnswers     = 4096      // challenges and tokens in the cache
	maxAnswerBytes = 16 << 20  // bytes of their texts
	maxToken       = 64 << 10  // maximum bytes of an answer with a token
	maxRealm       = 2 << 10   // maximum bytes of the address of a login server whose answers are cached
)

// tokens caches the answers of registries to /v2/, which say how to log in, and the tokens of their login servers, until a minute
// before they expire. A token is cached for the login, the login server and the scope for which it was issued, and is used for no
// other request. It is safe for concurrent use.
type tokens struct {
	now func() time.Time

	answers fetch.Cache[string, *kept]

	mu      sync.Mutex
	realms  map[string]bool // addresses of login servers that registries named
	flights map[string]chan struct{}
}

func newTokens(now func() time.Time) *tokens {
	return &tokens{now: now, answers: fetch.Cache[string, *kept]{Now: now, Entries: maxAnswers, Bytes: maxAnswerBytes}}
}

// kept is a cached answer.
type kept struct {
	status  int
	header  http.Header
	body    []byte
	expires time.Time
	token   [sha256.Size]byte // hash of the token in the answer
}

// keep caches an answer.
func (t *tokens) keep(key string, k *kept) {
	const fixed = 256
	bytes := fixed + len(key) + len(k.body)
	for _, text := range k.header["Www-Authenticate"] {
		bytes += len(text)
	}
	t.answers.Put(key, k, k.expires, bytes)
}

// remembered sends requests to registries through the cache tokens. Sessions that trust other certificates use a separate part of
// the cache.
type remembered struct {
	tokens *tokens
	space  string
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (m *remembered) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.URL.Path == "/v2/" && r.URL.RawQuery == "" && r.Header.Get("Authorization") == "" {
		return m.tokens.once(r, m.challengeKey(r.URL), m.challenge)
	}
	if m.tokens.isRealm(r.URL) && (r.Method == http.MethodGet || r.Method == http.MethodPost) {
		key, err := tokenKey(r)
		if err != nil {
			return nil, err
		}
		return m.tokens.once(r, m.space+" "+key, m.token)
	}
	repository, ok := repositoryOf(r)
	if ok && r.Header.Get("Authorization") == "" {
		return m.anonymous(r, m.space+" LOGIN "+repository)
	}
	answer, err := m.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		m.refused(r, m.space+" LOGIN "+repository)
	}
	return answer, err
}

// challengeKey is the key of a registry's way to log in.
func (m *remembered) challengeKey(u *url.URL) string {
	return m.space + " GET " + u.Scheme + "://" + u.Host + "/v2/"
}

// anonymous sends a request without a login, unless the registry has demanded one for the repository before.
func (m *remembered) anonymous(r *http.Request, key string) (*http.Response, error) {
	if k, ok := m.tokens.answers.Get(key); ok {
		return k.response(r), nil
	}
	answer, err := m.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || len(answer.Header.Values("Www-Authenticate")) == 0 {
		return answer, err
	}
	m.tokens.learn(answer)
	open := m.challengeKey(r.URL)
	m.tokens.answers.Drop(func(of string, k *kept) bool { return of == open && k.status == http.StatusOK }) // it demands a login now
	m.tokens.keep(key, &kept{
		status: answer.StatusCode, header: http.Header{"Www-Authenticate": answer.Header.Values("Www-Authenticate")}, expires: m.tokens.now().Add(challengeLives),
	})
	return answer, nil
}

// repositoryOf returns the registry and the repository of a request.
func repositoryOf(r *http.Request) (string, bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.HasPrefix(r.URL.Path, "/v2/") {
		return "", false
	}
	for _, part := range []string{"/manifests/", "/blobs/", "/referrers/"} {
		if i := strings.LastIndex(r.URL.Path, part); i > 0 {
			return r.URL.Scheme + "://" + r.URL.Host + r.URL.Path[:i], true
		}
	}
	return "", false
}

// challenge requests how to log in.
func (m *remembered) challenge(r *http.Request) (*http.Response, *kept, error) {
	answer, err := m.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusUnauthorized {
		return answer, nil, err
	}
	m.tokens.learn(answer)
	k := &kept{status: answer.StatusCode, header: http.Header{}, expires: m.tokens.now().Add(challengeLives)}
	if h := answer.Header.Values("Www-Authenticate"); len(h) > 0 {
		k.header["Www-Authenticate"] = h
	}
	return answer, k, nil
}

// token requests a token from a login server.
func (m *remembered) token(r *http.Request) (*http.Response, *kept, error) {
	answer, err := m.next.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxToken+1))
	rest := answer.Body
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	if err != nil {
		rest.Close()
		return nil, nil, err
	}
	var t transport.Token
	if len(body) > maxToken || json.Unmarshal(body, &t) != nil || t.ExpiresIn <= 0 {
		return answer, nil, nil // the answer does not say how long the token lives, so it is not cached
	}
	text := t.Token
	if t.AccessToken != "" {
		text = t.AccessToken // this field takes precedence
	}
	if text == "" {
		return answer, nil, nil
	}
	return answer, &kept{
		status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: body, token: sha256.Sum256([]byte(text)),
		expires: m.tokens.now().Add(min(time.Duration(t.ExpiresIn)*time.Second, 12*time.Hour) - expiryMargin),
	}, nil
}

// once returns a cached answer, or sends the request. One goroutine sends it, and others wait; they send it themselves if the
// answer is not cached.
func (t *tokens) once(r *http.Request, key string, ask func(*http.Request) (*http.Response, *kept, error)) (*http.Response, error) {
	waited := false
	for {
		t.mu.Lock()
		if k, ok := t.answers.Get(key); ok {
			t.mu.Unlock()
			return k.response(r), nil
		}
		flight := t.flights[key]
		if flight != nil && !waited {
			t.mu.Unlock()
			waited = true
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-flight:
			}
			continue
		}
		mine := flight == nil
		if mine {
			flight = make(chan struct{})
			if t.flights == nil {
				t.flights = map[string]chan struct{}{}
			}
			t.flights[key] = flight
		}
		t.mu.Unlock()
		answer, k, err := ask(r)
		if k != nil && t.now().Before(k.expires) {
			t.keep(key, k)
		}
		t.mu.Lock()
		if mine {
			delete(t.flights, key)
			close(flight)
		}
		t.mu.Unlock()
		return answer, err
	}
}

// learn records the login server that a registry names. The content of a registry is none: answers of login servers are cached, so a registry
// could make Ephor cache a manifest of another one.
func (t *tokens) learn(answer *http.Response) {
	for _, h := range answer.Header.Values("Www-Authenticate") {
		scheme, parameters, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "bearer") {
			continue
		}
		_, realm, ok := strings.Cut(parameters, `realm="`)
		if !ok {
			continue
		}
		realm, _, _ = strings.Cut(realm, `"`)
		u, err := url.Parse(realm)
		if err != nil || u.Host == "" || len(realm) > maxRealm {
			continue
		}
		if _, isContent := repositoryOf(&http.Request{Method: http.MethodGet, URL: u}); isContent {
			continue
		}
		t.mu.Lock()
		if t.realms == nil || len(t.realms) >= maxAnswers {
			t.realms = map[string]bool{}
		}
		t.realms[place(u)] = true
		t.mu.Unlock()
	}
}

func (t *tokens) isRealm(u *url.URL) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.realms[place(u)]
}

func place(u *url.URL) string { return u.Scheme + "://" + u.Host + u.Path }

// refused drops the token that a registry does not accept, and the way to log in there and to the repository with the key.
func (m *remembered) refused(r *http.Request, repository string) {
	text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum, challenge := sha256.Sum256([]byte(text)), m.challengeKey(r.URL)
	m.tokens.answers.Drop(func(key string, k *kept) bool {
		return bearer && k.token == sum || key == challenge || key == repository
	})
}

// tokenKey returns a key for everything that a token depends on: the login server, the scope and the login. It contains the login
// only as a hash.
func tokenKey(r *http.Request) (string, error) {
	hash := sha256.New()
	io.WriteString(hash, r.Header.Get("Authorization"))
	hash.Write([]byte{0})
	if r.Body != nil && r.Body != http.NoBody {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxToken))
		r.Body.Close()
		if err != nil {
			return "", err
		}
		hash.Write(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r.Method + " " + r.URL.String() + " " + hex.EncodeToString(hash.Sum(nil)), nil
}

// response returns the cached answer for a request.
func (k *kept) response(r *http.Request) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	return &http.Response{
		Status: http.StatusText(k.status), StatusCode: k.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: k.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(k.body)), ContentLength: int64(len(k.body)), Request: r,
	}
}

// drain reads the rest of a body that is not needed, up to a small limit, so that its connection can be reused.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	body.Close()
}

// sleep waits unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
