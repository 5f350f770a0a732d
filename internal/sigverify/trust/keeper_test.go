package trust

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"ephor.invalid/ephor/internal/world"
)

// clock is a clock that the test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bench is a keeper with its own clock and network.
type bench struct {
	*Keeper
	clock   *clock
	network *network
}

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	b := &bench{clock: &clock{at: time.Now()}, network: &network{}}
	o.HTTP, o.Now = b.network.transport(), b.clock.now
	k, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Keeper = k
	t.Cleanup(func() { k.flights.Wait() })
	return b
}

// update waits for the updates that are due.
func (b *bench) update() {
	b.renew()
	b.flights.Wait()
}

func (b *bench) material(t *testing.T, trust world.Trust) (root.TrustedMaterial, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return b.Material(ctx, trust)
}

// logs returns the addresses of the logs in the material.
func logs(m root.TrustedMaterial) string {
	if m == nil {
		return "none"
	}
	var out []string
	for _, l := range m.RekorLogs() {
		out = append(out, l.BaseURL)
	}
	return strings.Join(out, " ")
}

func (b *bench) wants(t *testing.T, trust world.Trust, log string) {
	t.Helper()
	m, err := b.material(t, trust)
	if err != nil || logs(m) != log {
		t.Fatalf("logs %q, %v, want %q", logs(m), err, log)
	}
}

func (b *bench) fails(t *testing.T, trust world.Trust, part string) {
	t.Helper()
	m, err := b.material(t, trust)
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Fatalf("logs %q, %v, want %q", logs(m), err, part)
	}
}

func (r *repository) trust() world.Trust {
	return world.Trust{Mirror: r.server.URL, RootData: base64.StdEncoding.EncodeToString(r.first)}
}

// The first root that a policy names by tuf.root.path is read from an address with https only: neither a file of the controller nor plain HTTP.
func TestRootPathOfAPolicy(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	b := newBench(t, Options{Permit: func(u *url.URL) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, u.String())
		return errors.New("not on the list")
	}})
	file := filepath.Join(t.TempDir(), "root.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	const mirror = "https://mirror.example"
	for _, path := range []string{file, "file://" + file, "root.json", "http://root.example/root.json"} {
		b.fails(t, world.Trust{Mirror: mirror, RootPath: path, Confined: true}, "tuf.root.path")
	}
	if len(asked) > 0 {
		t.Errorf("asked for %q", asked)
	}
	b.fails(t, world.Trust{Mirror: mirror, RootPath: "https://root.example/root.json", Confined: true}, "not on the list")
	if want := "https://root.example/root.json"; !slices.Contains(asked, want) {
		t.Errorf("asked for %q, want %s", asked, want)
	}
}

const month = 30 * 24 * time.Hour

// The files of a mirror are fetched once, on first use, and renewed in the background.
func TestMirror(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	b := newBench(t, Options{})
	if b.update(); r.asked() != 0 {
		t.Fatal("a mirror that nobody needs is asked")
	}
	b.wants(t, r.trust(), "https://one")
	asked := r.asked()
	b.wants(t, r.trust(), "https://one")
	if b.update(); r.asked() != asked {
		t.Errorf("%d requests, then %d", asked, r.asked())
	}
	r.publishTrusted("https://two")
	b.clock.forward(renewal)
	b.wants(t, r.trust(), "https://one") // the call does not wait
	b.flights.Wait()
	b.wants(t, r.trust(), "https://two")
	b.clock.forward(unusedAfter + time.Hour)
	asked = r.asked()
	if b.update(); r.asked() != asked || len(b.Statuses()) != 0 {
		t.Errorf("a mirror that nobody asks for any more is asked: %+v", b.Statuses())
	}
}

// If a mirror is not available at the start, it is tried again, and the failure is not cached.
func TestMirrorDownAtStart(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	r.broken(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	b := newBench(t, Options{})
	b.fails(t, r.trust(), "could not be fetched")
	asked := r.asked()
	b.fails(t, r.trust(), "503") // no request is sent between attempts
	if r.asked() != asked {
		t.Error("it is asked for each image")
	}
	r.broken(nil)
	b.clock.forward(2 * firstRetry)
	b.wants(t, r.trust(), "https://one")
	if s := b.Statuses(); len(s) != 1 || s[0].Failures != 0 || s[0].Err != nil || !s[0].Fetched.Equal(b.clock.now()) {
		t.Errorf("%+v", s)
	}
}

// The root of the public instance comes from the release until an update succeeds.
func TestPublicInstance(t *testing.T) {
	b := newBench(t, Options{})
	b.o.HTTP = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
	b.wants(t, world.Trust{}, "https://rekor.sigstore.dev")
	b.flights.Wait()
	b.wants(t, world.Trust{}, "https://rekor.sigstore.dev")
	if s := b.Statuses(); len(s) != 1 || s[0].Source != DefaultMirror || s[0].Failures != 1 || s[0].Err == nil || !s[0].Fetched.Equal(embeddedAt) {
		t.Errorf("%+v", s)
	}
	// Only the first call waits for a slow update, and only a short time.
	synctest.Test(t, func(t *testing.T) {
		slow := newBench(t, Options{})
		release := make(chan struct{})
		slow.o.HTTP = roundTrip(func(*http.Request) (*http.Response, error) { <-release; return nil, errors.New("no route") })
		begun := time.Now()
		slow.wants(t, world.Trust{}, "https://rekor.sigstore.dev")
		if took := time.Since(begun); took != firstWait {
			t.Errorf("after %v", took)
		}
		close(release)
	})
	// Another mirror is not the public instance.
	b.fails(t, world.Trust{Mirror: "https://tuf.example"}, "no route")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// If the mirror is not available, the last valid root stays in use until a grace period after its expiry.
func TestMirrorDownAtRefresh(t *testing.T) {
	expires := time.Now().Add(5 * 24 * time.Hour)
	r := newRepository(t, expires)
	r.publishTrusted("https://one")
	b := newBench(t, Options{})
	b.wants(t, r.trust(), "https://one")
	r.broken(func(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) })
	for range 5 {
		b.clock.forward(2 * lastRetry)
		b.update()
	}
	b.clock.forward(expires.Add(Grace - time.Hour).Sub(b.clock.now()))
	b.wants(t, r.trust(), "https://one")
	b.flights.Wait()
	b.clock.forward(2 * time.Hour)
	b.fails(t, r.trust(), "expired on "+expires.UTC().Format(time.DateOnly))
	r.broken(nil)
	r.expires = b.clock.now().Add(month)
	old := r.signers[metadata.ROOT]
	r.publishRoot(old)
	r.publishTrusted("https://two")
	b.clock.forward(2 * lastRetry)
	b.flights.Wait()
	b.wants(t, r.trust(), "https://two")
}

// Responses of a mirror that must be rejected.
func TestMirrorLies(t *testing.T) {
	for name, lie := range map[string]struct {
		act  func(r *repository)
		want string
	}{
		"metadata expired": {func(r *repository) { r.expires = time.Now().Add(-time.Hour); r.publishTrusted("https://two") }, "expired"},
		"rollback of all": {func(r *repository) {
			r.timestamp, r.snapshot, r.revisions = r.timestamp-2, r.snapshot-2, r.revisions-2
			r.publishTrusted("https://two")
		}, "rollback"},
		"rollback of the targets": {func(r *repository) { r.revisions -= 2; r.publishTrusted("https://two") }, "rollback"},
		"keys of another": {func(r *repository) {
			for _, role := range []string{metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
				r.rotate(role)
			}
			r.publishTrusted("https://two")
		}, "not enough signatures"},
		"a root that the root before did not sign": {func(r *repository) {
			r.rotate(metadata.ROOT)
			r.publishRoot()
			r.publishTrusted("https://two")
		}, "not enough signatures"},
		"garbage": {func(r *repository) {
			r.broken(func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte("{\"signed\":["))
				return true
			})
		}, ""},
		"a target that is not the one that was signed": {func(r *repository) {
			r.publishTrusted("https://two")
			for name, text := range r.files {
				if strings.HasPrefix(name, "targets/") {
					r.files[name] = bytes.Replace(text, []byte("https://two"), []byte("https://bad"), 1)
				}
			}
		}, "hash"},
		"a trusted root that is none": {func(r *repository) {
			r.publish(map[string]target{trustedRootTarget: {text: []byte(`{"mediaType":"x"}`)}})
		}, "trusted root"},
		"an empty trusted root": {func(r *repository) {
			r.publish(map[string]target{trustedRootTarget: {text: []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`)}})
		}, "neither keys nor certificates"},
		"a trusted root of 2 MB": {func(r *repository) { r.publish(map[string]target{trustedRootTarget: {text: make([]byte, 2<<20)}}) }, "more than"},
		"an endless answer": {func(r *repository) {
			r.broken(func(w http.ResponseWriter, q *http.Request) bool {
				for q.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						break
					}
				}
				return true
			})
		}, "more than"},
		"endless roots": {func(r *repository) {
			r.broken(func(w http.ResponseWriter, q *http.Request) bool {
				http.Redirect(w, q, q.URL.Path, http.StatusFound)
				return true
			})
		}, "redirect"},
		"nothing of Sigstore": {func(r *repository) { r.publish(map[string]target{"readme.txt": {text: []byte("x")}}) }, "neither trusted_root.json nor"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t, time.Now().Add(month))
			r.publishTrusted("https://zero")
			r.publishTrusted("https://zero")
			r.publishTrusted("https://one")
			b := newBench(t, Options{})
			b.wants(t, r.trust(), "https://one")
			lie.act(r)
			b.clock.forward(renewal)
			b.update()
			b.wants(t, r.trust(), "https://one")
			if s := b.Statuses(); len(s) != 1 || s[0].Failures != 1 || s[0].Err == nil || !strings.Contains(s[0].Err.Error(), lie.want) {
				t.Errorf("%+v, want %q", s, lie.want)
			}
		})
	}
}

// Roots of a repository are rotated, including a key that signs the timestamps, whose versions then start again.
func TestRotation(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://zero")
	r.publishTrusted("https://one")
	b := newBench(t, Options{})
	b.wants(t, r.trust(), "https://one")
	for i := range 3 {
		before := r.signers[metadata.ROOT]
		r.rotate(metadata.ROOT)
		if i == 2 {
			r.rotate(metadata.TIMESTAMP)
			r.rotate(metadata.SNAPSHOT)
			r.timestamp, r.snapshot = 0, 0
		}
		r.publishRoot([]ed25519.PrivateKey{before}...)
	}
	r.publishTrusted("https://two")
	b.clock.forward(renewal)
	b.update()
	b.wants(t, r.trust(), "https://two")
	// A keeper that starts with the first root finds the last one.
	newBench(t, Options{}).wants(t, r.trust(), "https://two")
}

// Repositories without a trusted root contain keys and certificates as single files.
func TestLegacy(t *testing.T) {
	fulcio, fulcioKey := authority(t, "fulcio", true, nil, nil)
	between, _ := authority(t, "between", true, fulcio, fulcioKey)
	tsa, tsaKey := authority(t, "tsa", true, nil, nil)
	leaf, _ := authority(t, "stamps", false, tsa, tsaKey)
	files := func(usage bool) map[string]target {
		out := map[string]target{
			"fulcio_v1.crt.pem":              {text: block("CERTIFICATE", fulcio.Raw), usage: "Fulcio"},
			"fulcio_intermediate_v1.crt.pem": {text: block("CERTIFICATE", between.Raw), usage: "Fulcio"},
			"rekor.pub":                      {text: block("PUBLIC KEY", logKey(t)), usage: "Rekor"},
			"ctfe.pub":                       {text: block("PUBLIC KEY", logKey(t)), usage: "CTFE"},
			"ctfe_2022.pub":                  {text: block("PUBLIC KEY", logKey(t)), usage: "CTFE"},
			"tsa.crt.pem":                    {text: append(block("CERTIFICATE", leaf.Raw), block("CERTIFICATE", tsa.Raw)...), usage: "TSA"},
			"artifact.pub":                   {text: block("PUBLIC KEY", logKey(t)), usage: "Unknown"},
		}
		if !usage {
			for name, f := range out {
				out[name] = target{text: f.text}
			}
		}
		return out
	}
	for _, usage := range []bool{true, false} {
		r := newRepository(t, time.Now().Add(month))
		r.publish(files(usage))
		m, err := newBench(t, Options{}).material(t, r.trust())
		if err != nil {
			t.Fatal(err)
		}
		if len(m.FulcioCertificateAuthorities()) != 1 || len(m.RekorLogs()) != 1 || len(m.CTLogs()) != 2 || len(m.TimestampingAuthorities()) != 1 {
			t.Errorf("usage %v: %d authorities, %d logs, %d logs of certificates, %d stamps", usage, len(m.FulcioCertificateAuthorities()), len(m.RekorLogs()), len(m.CTLogs()), len(m.TimestampingAuthorities()))
		}
		for id, l := range m.RekorLogs() {
			if len(id) != 64 || l.ValidityPeriodStart.IsZero() || l.PublicKey == nil {
				t.Errorf("%+v", l)
			}
		}
		ca := m.FulcioCertificateAuthorities()[0].(*root.FulcioCertificateAuthority)
		if !ca.Root.Equal(fulcio) || len(ca.Intermediates) != 1 || !ca.Intermediates[0].Equal(between) {
			t.Errorf("%+v", ca)
		}
	}
}

// Offline, no connection is made, whatever policies use.
func TestOffline(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	file := filepath.Join(t.TempDir(), "trusted_root.json")
	if err := os.WriteFile(file, trustedRoot(t, "https://mounted"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, want string }{{"", "https://rekor.sigstore.dev"}, {file, "https://mounted"}} {
		b := newBench(t, Options{Offline: true, OfflineRoot: c.file, Mirror: r.server.URL, RootData: r.first})
		b.wants(t, world.Trust{}, c.want)
		b.wants(t, world.Trust{TrustedRoot: string(trustedRoot(t, "https://own"))}, "https://own")
		b.fails(t, r.trust(), "works offline")
		b.fails(t, world.Trust{RootPath: "https://root.example/root.json"}, "works offline")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		b.update()
		b.clock.forward(renewal)
		b.update()
		cancel()
		if err := <-done; err != nil || b.network.count() != 0 || r.asked() != 0 {
			t.Errorf("%v, connections to %v", err, b.network.dials)
		}
	}
	b := newBench(t, Options{Offline: true, OfflineRoot: file})
	b.wants(t, world.Trust{}, "https://mounted")
	for _, change := range []struct{ text, want string }{{string(trustedRoot(t, "https://changed")), "https://changed"}, {"{", "https://changed"}} {
		if err := os.WriteFile(file, []byte(change.text), 0o600); err != nil {
			t.Fatal(err)
		}
		b.clock.forward(fileReread)
		b.wants(t, world.Trust{}, change.want)
	}
	if s := b.Statuses(); len(s) != 1 || s[0].Err == nil {
		t.Errorf("%+v", s)
	}
	b = newBench(t, Options{Offline: true, OfflineRoot: filepath.Join(t.TempDir(), "gone")})
	b.fails(t, world.Trust{}, "no such file")
	if err := os.WriteFile(b.o.OfflineRoot, trustedRoot(t, "https://late"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.wants(t, world.Trust{}, "https://late")
}

// The trust material in policies is limited in size and number. That of namespaced policies takes no room from others, and may only
// be fetched from permitted addresses.
func TestPolicies(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	b := newBench(t, Options{Permit: func(u *url.URL) error {
		if u.Path == "/other/1.root.json" || !strings.HasPrefix("http://"+u.Host, r.server.URL) {
			return errors.New("not on the list")
		}
		return nil
	}})
	b.wants(t, r.trust(), "https://one")
	confined := r.trust()
	confined.Confined = true
	b.wants(t, confined, "https://one")
	confined.Mirror = "http://elsewhere.example"
	b.fails(t, confined, "not on the list")
	for i := range 3 * maxMirrors {
		confined.Mirror = fmt.Sprintf("http://%d.example", i)
		b.fails(t, confined, "not on the list")
	}
	if n := len(b.mirrors); n != maxMirrors+1 {
		t.Errorf("%d mirrors are kept", n)
	}
	for i := range 3 * maxInline {
		text := string(trustedRoot(t, fmt.Sprintf("https://%d", i)))
		b.wants(t, world.Trust{TrustedRoot: text, Confined: i%2 == 0}, fmt.Sprintf("https://%d", i))
		b.clock.forward(time.Second)
	}
	if n := len(b.inline); n > 2*maxInline {
		t.Errorf("%d inline roots are kept", n)
	}
	for _, c := range []struct {
		trust world.Trust
		want  string
	}{
		{world.Trust{TrustedRoot: strings.Repeat(" ", maxRoot+1)}, "more than"},
		{world.Trust{TrustedRoot: "{"}, "cannot be read"},
		{world.Trust{Mirror: "file:///etc"}, "tuf.mirror"},
		{world.Trust{Mirror: "https://user:password@host"}, "tuf.mirror"},
		{world.Trust{Mirror: r.server.URL, RootPath: "/var/run/secrets/kubernetes.io/serviceaccount/token"}, "tuf.root.path"},
		{world.Trust{Mirror: r.server.URL, RootPath: "http://plain.example/root.json"}, "tuf.root.path"},
		{world.Trust{Mirror: r.server.URL, RootData: "%"}, "tuf.root.data"},
		{world.Trust{Mirror: r.server.URL, RootData: "{}"}, "first root"},
	} {
		b.fails(t, c.trust, c.want)
	}
}

// The mirror in the flags replaces the public instance. Its first root is data, a file or an address.
func TestFlags(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	r.put("root.json", r.first)
	file := filepath.Join(t.TempDir(), "root.json")
	if err := os.WriteFile(file, r.first, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"data": {RootData: r.first}, "file": {RootPath: file}, "address": {RootPath: r.server.URL + "/root.json"},
	} {
		o.Mirror = r.server.URL + "/"
		t.Run(name, func(t *testing.T) { newBench(t, o).wants(t, world.Trust{}, "https://one") })
	}
	// A file that is created later is found.
	late := filepath.Join(t.TempDir(), "late.json")
	b := newBench(t, Options{Mirror: r.server.URL, RootPath: late})
	b.fails(t, world.Trust{}, "no such file")
	if err := os.WriteFile(late, r.first, 0o600); err != nil {
		t.Fatal(err)
	}
	b.clock.forward(2 * firstRetry)
	b.wants(t, world.Trust{}, "https://one")
	if _, err := New(Options{Mirror: "ftp://x"}); err == nil {
		t.Error("any mirror is taken")
	}
}

// A first root that is wrong, such as the page of a proxy, a file that is not complete yet, or the root of another repository, is read again.
func TestFirstRootIsWrong(t *testing.T) {
	r, other := newRepository(t, time.Now().Add(month)), newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	r.put("root.json", r.first)
	for name, wrong := range map[string][]byte{"empty": {}, "page": []byte("<html>"), "other": other.first} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "root.json")
			if err := os.WriteFile(file, wrong, 0o600); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, Options{Mirror: r.server.URL, RootPath: file})
			b.fails(t, world.Trust{}, "could not be fetched")
			if err := os.WriteFile(file, r.first, 0o600); err != nil {
				t.Fatal(err)
			}
			b.clock.forward(2 * firstRetry)
			b.wants(t, world.Trust{}, "https://one")
		})
	}
}

// Fetched files are available at the next start, and still prevent a rollback. Nothing is written elsewhere.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://zero")
	r.publishTrusted("https://one")
	before := r.signers[metadata.ROOT]
	r.rotate(metadata.ROOT)
	r.publishRoot(before)
	newBench(t, Options{CacheDir: dir}).wants(t, r.trust(), "https://one")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	r.broken(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	b := newBench(t, Options{CacheDir: dir})
	b.wants(t, r.trust(), "https://one")
	b.flights.Wait()
	r.broken(nil)
	r.timestamp, r.snapshot, r.revisions = 0, 0, 0
	r.publishTrusted("https://old")
	b.clock.forward(2 * firstRetry)
	b.update()
	b.wants(t, r.trust(), "https://one")
	if s := b.Statuses(); !strings.Contains(fmt.Sprint(s[0].Err), "rollback") {
		t.Errorf("%+v", s)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	// A changed root is not used.
	r.broken(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true })
	encoded := base64.StdEncoding.EncodeToString([]byte("https://one"))
	for name, changed := range map[string][]byte{"cut": text[:len(text)/2], "other": bytes.ReplaceAll(text, []byte(r.server.URL), []byte("https://x")), "empty": nil, "text": []byte(encoded)} {
		if err := os.WriteFile(files[0], changed, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { newBench(t, Options{CacheDir: dir}).fails(t, r.trust(), "502") })
	}
}

// One update serves all waiting callers, and a caller that gives up does not end it.
func TestOneUpdate(t *testing.T) {
	r := newRepository(t, time.Now().Add(month))
	r.publishTrusted("https://one")
	release := make(chan struct{})
	r.broken(func(http.ResponseWriter, *http.Request) bool { <-release; return false })
	b := newBench(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Material(ctx, r.trust()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if m, err := b.Material(t.Context(), r.trust()); err != nil || logs(m) != "https://one" {
				t.Errorf("%v", err)
			}
		})
	}
	close(release)
	wait.Wait()
	if n := r.asked(); n > 6 {
		t.Errorf("%d requests", n)
	}
}

// The trusted root in the release is that of the public instance. It is compared with the public one once a year, and long before
// any part of it expires.
func TestEmbedded(t *testing.T) {
	m, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	if logs(m) != "https://rekor.sigstore.dev" || len(m.FulcioCertificateAuthorities()) == 0 || len(m.CTLogs()) == 0 {
		t.Errorf("it is not the one of the public instance: %s", logs(m))
	}
	for _, ca := range m.FulcioCertificateAuthorities() {
		if f := ca.(*root.FulcioCertificateAuthority); f.URI != "https://fulcio.sigstore.dev" {
			t.Errorf("an authority of %s", f.URI)
		}
	}
	current := 0
	for _, ca := range m.FulcioCertificateAuthorities() {
		f := ca.(*root.FulcioCertificateAuthority)
		if end := f.ValidityPeriodEnd; (end.IsZero() || end.After(time.Now().Add(6*month))) && f.Root.NotAfter.After(time.Now().Add(6*month)) {
			current++
		}
	}
	if current == 0 {
		t.Error("its certificate authorities end in half a year: take a newer one")
	}
	if age := time.Since(embeddedAt); age > 365*24*time.Hour {
		t.Errorf("it was compared with the public instance %d days ago: take the trusted_root.json of the newest github.com/sigstore/sigstore, or see that it is the same, and set embeddedAt", age/(24*time.Hour))
	}
}
