package main

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/sigcache"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/fixture"
	"ephor.invalid/ephor/internal/sigverify/keys"
	"ephor.invalid/ephor/internal/sigverify/trust"
	"ephor.invalid/ephor/internal/world"
)

const (
	cachedReviews = 5000
	nearReviews   = 400 // each with an empty verifier
	farReviews    = 9
	verifications = 1000
	questions     = 50 // number of verifications of one image
	farRoundTrip  = 40 * time.Millisecond

	manyImages    = 50
	podsPerSecond = 500
	podSeconds    = 10
)

// signedHost is the registry of the signed images.
const signedHost = "registry.ephor.test"

// imagePolicies require a signature by a key, and one by an identity.
const imagePolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: keyed}
spec:
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Pod]}}]}
    verifyImages:
    - imageReferences: ["*.ephor.test/app:key*", "*.ephor.test/app@%[1]s"]
      failureAction: Enforce
      imageRegistryCredentials: {allowInsecureRegistry: true}
      attestors: [{entries: [{keys: {publicKeys: %[2]q, rekor: {ignoreTlog: true}, ctlog: {ignoreSCT: true}}}]}]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: keyless}
spec:
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Pod]}}]}
    verifyImages:
    - type: SigstoreBundle
      imageReferences: ["*.ephor.test/app:bundle*", "*.ephor.test/app@%[3]s"]
      failureAction: Enforce
      imageRegistryCredentials: {allowInsecureRegistry: true}
      attestors: [{entries: [{keyless: {subject: someone@ephor.test, issuer: https://accounts.ephor.test, rekor: {url: https://rekor.sigstore.dev}}}]}]
`

// images measures reviews of Pods whose images must be signed. A review includes everything in an admission server from the bytes of the
// request to those of the answer, except the connection to the API server. The registry is another process, and cosign signed its images.
func (b *bench) images() error {
	for _, c := range []struct {
		row, image string
		byTag      bool
		reviews    int
		delay      time.Duration
		target     float64
	}{
		{"images, by key, near", "key-p256", false, nearReviews, 0, 0},
		{"images, by bundle, near", "bundle-keyless", false, nearReviews, 0, 0},
		{"images, by key, 40 ms away", "key-p256", true, farReviews, farRoundTrip, 100},
		{"images, by bundle, 40 ms away", "bundle-keyless", true, farReviews, farRoundTrip, 180},
	} {
		if err := b.uncached(c.row, c.image, c.byTag, c.reviews, c.delay, c.target); err != nil {
			return fmt.Errorf("%s: %w", c.row, err)
		}
	}
	if err := b.verification(); err != nil {
		return err
	}
	if err := b.cachedImages(); err != nil {
		return err
	}
	return b.sameImages()
}

// uncached measures reviews whose image is not known yet. The target is for the time of a review.
func (b *bench) uncached(row, name string, byTag bool, reviews int, delay time.Duration, target float64) error {
	v, err := b.newVerifying(delay)
	if err != nil {
		return err
	}
	defer v.stop()
	image := fixture.Load().Image(name)
	ref := image.String()
	if byTag {
		ref = image.Tagged()
	}
	body := podWith(ref)
	if err := v.review(body); err != nil { // opens the connections
		return err
	}
	var times []time.Duration
	before, requests := ownCPU(), v.requests.Load()
	for range reviews {
		if err := v.forget(); err != nil {
			return err
		}
		start := time.Now()
		if err := v.review(body); err != nil {
			return err
		}
		times = append(times, time.Since(start))
	}
	cpu := (ownCPU() - before) / time.Duration(reviews)
	asked := float64(v.requests.Load()-requests) / float64(reviews)
	median := load.Median(times)
	fmt.Printf("%-32s CPU %5.0f µs per review, %6.1f ms, %.1f requests to the registry, %s each\n", row, micros(cpu), ms(median), asked, delay)
	if target > 0 {
		b.row(row, "ms", ms(median), target)
	}
	return nil
}

// verification measures the CPU time of verifying a signature that is already in memory.
func (b *bench) verification() error {
	v, err := b.newVerifying(0)
	if err != nil {
		return err
	}
	defer v.stop()
	f := fixture.Load()
	for _, c := range []struct {
		row, image, format string
		attestor           world.Attestor
		target             time.Duration
	}{
		{"images, verify by key", "key-p256", sigverify.Cosign, world.Attestor{
			Key: &world.KeyAttestor{PublicKey: f.Keys["p256"]}, Rekor: world.Rekor{Ignore: true}, CTLog: world.CTLog{Ignore: true},
		}, 300 * time.Microsecond},
		{"images, verify by bundle", "bundle-keyless", sigverify.Bundle, world.Attestor{
			Keyless: &world.KeylessAttestor{Subject: "someone@ephor.test", Issuer: "https://accounts.ephor.test"},
		}, 2 * time.Millisecond},
	} {
		var cpu time.Duration
		for range verifications / questions {
			verifier, err := v.verifier()
			if err != nil {
				return err
			}
			// A mirror with another name, which is not contacted, makes each verification a different one.
			ask := func(n int) error {
				a := c.attestor
				a.Trust.Mirror = strings.Repeat("x", n)
				_, err := verifier.Verify(context.Background(), world.SignatureRequest{
					Image: f.Image(c.image).String(), Format: c.format, Attestor: &a, Registry: world.ImageRequest{Insecure: true},
				})
				return err
			}
			if err := ask(0); err != nil { // reads
				return fmt.Errorf("%s: %w", c.row, err)
			}
			start, requests := ownCPU(), v.requests.Load()
			for n := range questions {
				if err := ask(n + 1); err != nil {
					return fmt.Errorf("%s: %w", c.row, err)
				}
			}
			cpu += ownCPU() - start
			if asked := v.requests.Load() - requests; asked > 1 { // the list of referrers may arrive late
				return fmt.Errorf("%s: %d requests to the registry in a measurement without", c.row, asked)
			}
		}
		cpu /= verifications
		fmt.Printf("%-32s CPU %5.0f µs per verification\n", c.row, micros(cpu))
		b.row(c.row, "µs", micros(cpu), micros(c.target))
	}
	return nil
}

// cachedImages measures the decision about an image by digest that is known to be signed: the additional cost of a review compared with a
// review of the same Pod with an image that no policy selects.
func (b *bench) cachedImages() error {
	v, err := b.newVerifying(0)
	if err != nil {
		return err
	}
	defer v.stop()
	body := podWith(fixture.Load().Image("key-p256").String())
	unrelated := podWith("registry.example.com/store/web:4.17.2") // for comparison: no policy selects its images
	for range cachedReviews {
		if err := errors.Join(v.review(body), v.review(unrelated)); err != nil {
			return err
		}
	}
	cost := func(body []byte) (time.Duration, error) {
		var rounds []time.Duration
		for range pairs {
			runtime.GC()
			start := ownCPU()
			for range cachedReviews {
				if err := v.review(body); err != nil {
					return 0, err
				}
			}
			rounds = append(rounds, (ownCPU()-start)/cachedReviews)
		}
		return load.Median(rounds), nil
	}
	requests := v.requests.Load()
	cached, err := cost(body)
	if err != nil {
		return err
	}
	asked := v.requests.Load() - requests
	other, err := cost(unrelated)
	if err != nil {
		return err
	}
	fmt.Printf("%-32s CPU %5.1f µs per decision: a review of %d bytes takes %.1f µs, and %.1f µs where no policy is about its images; %d requests to the registry\n",
		"images, known by digest", micros(cached-other), len(body), micros(cached), micros(other), asked)
	b.row("images, known by digest", "µs", micros(cached-other), 50)
	b.row("images, known by digest, requests", "", float64(asked), 0)
	return nil
}

// sameImages sends many Pods a second with the same images, beginning with an empty cache: each image is verified once for each policy.
func (b *bench) sameImages() error {
	v, err := b.newVerifying(farRoundTrip)
	if err != nil {
		return err
	}
	defer v.stop()
	f := fixture.Load()
	var bodies [][]byte
	for i := range manyImages {
		for _, name := range []string{"key-p256", "bundle-keyless"} {
			image := f.Image(name)
			bodies = append(bodies, podWith(strings.Replace(image.String(), signedHost, fmt.Sprintf("r%02d.ephor.test", i), 1)))
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var times []time.Duration
	var failed error
	start, before := time.Now(), ownCPU()
	const pods = podsPerSecond * podSeconds
	for n := range pods {
		time.Sleep(time.Until(start.Add(time.Duration(n) * time.Second / podsPerSecond)))
		wg.Go(func() {
			begin := time.Now()
			err := v.review(bodies[n%len(bodies)])
			mu.Lock()
			defer mu.Unlock()
			times, failed = append(times, time.Since(begin)), errors.Join(failed, err)
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	took, cpu := time.Since(start), ownCPU()-before
	slices.Sort(times)
	verified := float64(v.verified.Load()) / float64(len(bodies))
	fmt.Printf("%d Pods of the same %d images and 2 policies in %.1f s, registry %s away: %d verifications, %d requests to the registry, p50 %.1f ms, p99 %.1f ms, %.1f s CPU\n",
		pods, manyImages, took.Seconds(), farRoundTrip, v.verified.Load(), v.requests.Load(), ms(load.Percentile(times, 50)), ms(load.Percentile(times, 99)), cpu.Seconds())
	b.row("images, verified per image and policy", "", verified, 1)
	return nil
}

// podWith returns a review of a Pod in which one container has the image.
func podWith(image string) []byte {
	pod := load.Pod("shop", false)
	pod["spec"].(object)["containers"].([]any)[0].(object)["image"] = image
	return load.Review(pod)
}

// verifying is an admission server with policies about images and its own registry.
type verifying struct {
	server   *admission.Server
	client   *registry.Client
	trust    *trust.Keeper
	requests atomic.Int64 // number of requests to the registry
	verified atomic.Int64
	// signatures is replaced to clear the cache.
	signatures atomic.Pointer[sigcache.Cache]
	ends       func()
}

func (v *verifying) stop() { v.ends() }

func (b *bench) newVerifying(delay time.Duration) (*verifying, error) {
	lifecycle.TuneHeap(0)
	debug.SetGCPercent(lifecycle.GCPercent) // as a controller that has started
	f := fixture.Load()
	addr, _, ends, err := startSelf(serveRegistryCommand, delay.String())
	if err != nil {
		return nil, err
	}
	v := &verifying{ends: ends}
	err = func() error {
		v.client, err = registry.New(registry.Options{
			Insecure: true, Observe: func(string, int, time.Duration) { v.requests.Add(1) },
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			},
		})
		if err != nil {
			return err
		}
		root := filepath.Join(b.dir, "trusted_root.json")
		if err := os.WriteFile(root, f.Trust.TrustedRoot, 0o600); err != nil {
			return err
		}
		if v.trust, err = trust.New(trust.Options{Offline: true, OfflineRoot: root}); err != nil {
			return err
		}
		if err := v.forget(); err != nil {
			return err
		}
		snapshot, err := compiled(fmt.Sprintf(imagePolicies, f.Image("key-p256").Digest, f.Keys["p256"], f.Image("bundle-keyless").Digest))
		if err != nil {
			return err
		}
		key, err := seal.NewKey(bytes.Repeat([]byte{1}, seal.KeySize))
		if err != nil {
			return err
		}
		ring, err := seal.NewKeyring(key)
		if err != nil {
			return err
		}
		all := world.World{Images: v.client.Lookups(), Signatures: forgetful{v}, Seals: keystore.Seals{Keys: &keystore.Cached{
			Load: func(context.Context) (*seal.Keyring, error) { return ring, nil }, Now: time.Now,
		}}}
		v.server = admission.New(admission.Options{Timeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler), Now: time.Now},
			func() *catalog.Snapshot { return snapshot }, new(settings.Store), world.RootFunc(func(world.Reach) world.World { return all }),
			noCluster{}, func() error { return nil })
		v.server.Open()
		return nil
	}()
	if err != nil {
		ends()
		return nil, err
	}
	return v, nil
}

func compiled(text string) (*catalog.Snapshot, error) {
	var objects []compile.Object
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var value map[string]any
		if err := yaml.Unmarshal([]byte(doc), &value); err != nil {
			return nil, err
		}
		objects = append(objects, compile.Object{Value: value})
	}
	programs, diags := compile.Compile(objects)
	return catalog.NewStatic(programs), diags.Err()
}

// forget creates an empty verifier. The connections to the registry stay.
func (v *verifying) forget() error {
	verifier, err := v.verifier()
	if err != nil {
		return err
	}
	v.signatures.Store(sigcache.New(verifier, sigcache.Options{Now: time.Now}))
	return nil
}

func (v *verifying) verifier() (*sigverify.Verifier, error) {
	made := fixture.Load().Made
	return sigverify.New(sigverify.Options{
		Registry: v.client, Keys: countedKeys{keys.New(keys.Options{}), &v.verified}, Trust: countedTrust{v.trust, &v.verified}, HTTP: unreachable{},
		Now: func() time.Time { return made.Add(48 * time.Hour) }, // short-lived certificates have expired
	})
}

// review sends one review, which must be admitted.
func (v *verifying) review(body []byte) error {
	r := httptest.NewRequest(http.MethodPost, "/mutate/fail?timeout=10s", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	v.server.ServeHTTP(w, r)
	if answer := w.Body.Bytes(); w.Code != http.StatusOK || !bytes.Contains(answer, []byte(`"allowed":true`)) {
		return fmt.Errorf("the review is answered with %d: %s", w.Code, answer)
	}
	return nil
}

// forgetful verifies with the current verifier.
type forgetful struct{ of *verifying }

func (f forgetful) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	return f.of.signatures.Load().Verify(ctx, r)
}

func (f forgetful) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	return f.of.signatures.Load().Statements(ctx, r)
}

func (f forgetful) Blob(ctx context.Context, r world.BlobRequest) (string, error) {
	return f.of.signatures.Load().Blob(ctx, r)
}

// countedKeys counts the verifications by a key, and countedTrust those by an identity: each makes one request.
type countedKeys struct {
	*keys.Resolver
	n *atomic.Int64
}

func (c countedKeys) All(ctx context.Context, k *world.KeyAttestor, confined bool) ([]crypto.PublicKey, error) {
	c.n.Add(1)
	return c.Resolver.All(ctx, k, confined)
}

type countedTrust struct {
	*trust.Keeper
	n *atomic.Int64
}

func (c countedTrust) Material(ctx context.Context, _ world.Trust) (root.TrustedMaterial, error) {
	c.n.Add(1)
	return c.Keeper.Material(ctx, world.Trust{})
}

// unreachable is a network without transparency logs.
type unreachable struct{}

func (unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is not asked in this measurement", r.URL.Host)
}

// serveRegistryCommand is the argument with which the program is a registry.
const serveRegistryCommand = "serve-registry"

// serveRegistry serves the signed images under every host, each answer after the delay, until it is killed.
func serveRegistry(delay string) error {
	wait, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	images := fixture.Load().Registry()
	server, _, err := fixture.Listen("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(wait)
		r.Host = signedHost
		images.ServeHTTP(w, r)
	}))
	if err != nil {
		return err
	}
	fmt.Println(server.Address)
	select {}
}
