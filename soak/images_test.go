package soak

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/sigverify/fixture"
)

// imagePolicies require a key in the namespaces strict and lenient, which differ in their failurePolicy, and an identity in people. Nothing
// is remembered, so every review depends on the registry.
func imagePolicies(registry string) string {
	f := fixture.Load()
	indented := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n            ") }
	one := func(namespace, failurePolicy, attestor string) string {
		return `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: images-` + namespace + `}
spec:
  webhookConfiguration: {failurePolicy: ` + failurePolicy + `, timeoutSeconds: 5}
  rules:
  - name: signed
    match: {any: [{resources: {kinds: [Pod], namespaces: [` + namespace + `]}}]}
    verifyImages:
    - imageReferences: ["` + registry + `/*"]
      failureAction: Enforce
      useCache: false
      mutateDigest: false
      verifyDigest: false
      required: false
      imageRegistryCredentials: {allowInsecureRegistry: true}
      attestors:
      - entries:
        - ` + attestor + "\n"
	}
	key := "keys:\n            rekor: {ignoreTlog: true}\n            ctlog: {ignoreSCT: true}\n            publicKeys: |-\n              " + strings.ReplaceAll(indented(f.Keys["p256"]), "            ", "              ")
	return strings.Join([]string{
		one("strict", "Fail", key), one("lenient", "Ignore", key), one("people", "Fail", "keyless: {subject: someone@ephor.test, issuer: 'https://accounts.ephor.test', rekor: {url: 'https://rekor.sigstore.dev'}}"),
	}, "---")
}

// registrySwitch is a registry and a repository of updates whose faults change.
type registrySwitch struct {
	registry *fixture.Registry
	fault    atomic.Pointer[http.Handler]
	updates  *updates
}

// ServeHTTP implements http.Handler.
func (s *registrySwitch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/updates/") {
		http.StripPrefix("/updates/", s.updates).ServeHTTP(w, r)
		return
	}
	r.Host = "registry.ephor.test"
	if h := s.fault.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	s.registry.ServeHTTP(w, r)
}

// breakDown sets the fault of the registry by name; an empty name removes it.
func (s *registrySwitch) breakDown(t *testing.T, name string) {
	t.Helper()
	if name == "" {
		s.fault.Store(nil)
		return
	}
	all := fixture.Faults()
	i := slices.IndexFunc(all, func(f fixture.Fault) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no fault %q", name)
	}
	h := all[i].Wrap(s.registry)
	s.fault.Store(&h)
}

// updates is a repository of trust roots (TUF) with versions.
type updates struct {
	t       *testing.T
	down    atomic.Bool
	asked   atomic.Int64
	mu      sync.Mutex
	files   map[string][]byte
	signers map[string]ed25519.PrivateKey
	version int64
	root    int64
	first   []byte
}

func newUpdates(t *testing.T) *updates {
	u := &updates{t: t, files: map[string][]byte{}, signers: map[string]ed25519.PrivateKey{}}
	for _, role := range []string{metadata.ROOT, metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
		u.rotate(role)
	}
	u.first = u.publishRoot()
	return u
}

// ServeHTTP implements http.Handler.
func (u *updates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.asked.Add(1)
	u.mu.Lock()
	text, ok := u.files[strings.TrimPrefix(r.URL.Path, "/")]
	u.mu.Unlock()
	switch {
	case u.down.Load():
		panic(http.ErrAbortHandler)
	case !ok:
		http.NotFound(w, r)
	default:
		_, _ = w.Write(text)
	}
}

func (u *updates) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// rotate gives a role a new key.
func (u *updates) rotate(role string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	u.must(err)
	u.signers[role] = key
}

// publishRoot writes the next version of the root, which its previous keys sign as well.
func (u *updates) publishRoot(before ...ed25519.PrivateKey) []byte {
	u.root++
	m := metadata.Root(time.Now().Add(365 * 24 * time.Hour))
	m.Signed.Version = u.root
	for role, key := range u.signers {
		public, err := metadata.KeyFromPublicKey(key.Public())
		u.must(err)
		u.must(m.Signed.AddKey(public, role))
	}
	for _, key := range append(before, u.signers[metadata.ROOT]) {
		s, err := signature.LoadSigner(key, crypto.Hash(0))
		u.must(err)
		_, err = m.Sign(s)
		u.must(err)
	}
	return u.put(fmt.Sprintf("%d.root.json", u.root), m)
}

func (u *updates) put(name string, m interface{ ToBytes(bool) ([]byte, error) }) []byte {
	text, err := m.ToBytes(false)
	u.must(err)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files[name] = text
	return text
}

// publish writes the next version of everything except the root.
func (u *updates) publish(trustedRoot []byte) {
	u.version++
	sum, expires := sha256.Sum256(trustedRoot), time.Now().Add(24*time.Hour)
	u.mu.Lock()
	u.files["targets/"+hex.EncodeToString(sum[:])+".trusted_root.json"] = trustedRoot
	u.mu.Unlock()
	info, err := metadata.TargetFile().FromBytes("trusted_root.json", trustedRoot, "sha256")
	u.must(err)
	targets, snapshot, timestamp := metadata.Targets(expires), metadata.Snapshot(expires), metadata.Timestamp(expires)
	targets.Signed.Version, snapshot.Signed.Version, timestamp.Signed.Version = u.version, u.version, u.version
	targets.Signed.Targets["trusted_root.json"] = info
	snapshot.Signed.Meta["targets.json"], timestamp.Signed.Meta["snapshot.json"] = metadata.MetaFile(u.version), metadata.MetaFile(u.version)
	signer := func(role string) signature.Signer {
		s, err := signature.LoadSigner(u.signers[role], crypto.Hash(0))
		u.must(err)
		return s
	}
	_, err = targets.Sign(signer(metadata.TARGETS))
	u.must(err)
	_, err = snapshot.Sign(signer(metadata.SNAPSHOT))
	u.must(err)
	_, err = timestamp.Sign(signer(metadata.TIMESTAMP))
	u.must(err)
	u.put(fmt.Sprintf("%d.targets.json", u.version), targets)
	u.put(fmt.Sprintf("%d.snapshot.json", u.version), snapshot)
	u.put("timestamp.json", timestamp)
}

// state returns the files that the repository serves now.
func (u *updates) state() map[string][]byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.files)
}

func (u *updates) restore(files map[string][]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files = files
}

// imageClients create Pods with images.
type imageClients struct {
	*podClient
	base, registry string
}

// ask creates a Pod, and returns the reason for a denial.
func (c *imageClients) ask(client int, namespace, image string) (refusal string, err error) {
	one := *c.podClient
	one.url = c.base + "/api/v1/namespaces/" + namespace + "/pods?dryRun=All"
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("image-", client), "namespace": namespace},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": c.registry + "/app:" + image}}},
	})
	if err != nil {
		return "", err
	}
	return one.create(client, body)
}

// wants returns an error if the decision about a Pod is wrong.
func (c *imageClients) wants(namespace, image string, admitted bool) error {
	refusal, err := c.ask(0, namespace, image)
	if err == nil && (refusal == "") != admitted {
		err = fmt.Errorf("%s in %s: refused with %q", image, namespace, refusal)
	}
	return err
}

// imageCounts counts the decisions about the images in a phase.
type imageCounts struct {
	asked, unavailable           int
	strictUnsigned, strictSigned int // admitted, denied
	lenientUnsigned              int // admitted
	lenientSigned                int // denied
	first                        string
}

// storm creates Pods with signed and unsigned images for a while.
func (c *imageClients) storm(d time.Duration) imageCounts {
	var mu sync.Mutex
	var n imageCounts
	var wg sync.WaitGroup
	begin := time.Now()
	for k := range c.http {
		wg.Go(func() {
			for i := k; time.Since(begin) < d; i++ {
				namespace, image := []string{"strict", "lenient"}[i/2%2], []string{"annotated", "unsigned"}[i%2]
				refusal, err := c.ask(k, namespace, image)
				if err != nil {
					refusal = err.Error()
				}
				mu.Lock()
				n.asked++
				switch admitted := refusal == ""; {
				case strings.Contains(refusal, unavailable), err != nil:
					n.unavailable++
				case namespace == "strict" && image == "unsigned" && admitted:
					n.strictUnsigned++
				case namespace == "strict" && image == "annotated" && !admitted:
					n.strictSigned++
				case namespace == "lenient" && image == "unsigned" && admitted:
					n.lenientUnsigned++
				case namespace == "lenient" && image == "annotated" && !admitted:
					n.lenientSigned++
				}
				if n.first == "" && refusal != "" && image == "annotated" {
					n.first = refusal
				}
				mu.Unlock()
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return n
}

// TestImagesThroughFaults takes the registry and the repository of trust roots away, slows them down and makes them return wrong content,
// while Pods with signed and with unsigned images are created. No unsigned image is admitted by a policy that fails closed, no signed image
// is denied for longer than the fault, and every answer arrives before the API server gives up.
func TestImagesThroughFaults(t *testing.T) {
	f := fixture.Load()
	u := newUpdates(t)
	// The first version of the trust root has no signers.
	var fields map[string]any
	if err := json.Unmarshal(f.Trust.TrustedRoot, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "certificateAuthorities")
	nobody, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	u.publish(nobody)
	old := u.state()
	u.publish(f.Trust.TrustedRoot)

	reg := &registrySwitch{registry: f.Registry(), updates: u}
	server := fixture.Start(t, reg)
	t.Setenv("TUF_ROOT", t.TempDir())
	flags := []string{"--httpBlocklist=169.254.0.0/16", "--enableTuf", "--tufMirror=http://" + server.Address + "/updates", "--tufRootRaw=" + base64.StdEncoding.EncodeToString(u.first)}
	p := install(t)

	// The mirror is away when the controller starts.
	u.down.Store(true)
	replica := p.start(1, flags...)[0]
	for _, namespace := range []string{"strict", "lenient", "people"} {
		p.kubectl("create", "namespace", namespace)
		suite.Until(p.T, "the service account is there", func() error {
			_, err := p.Try(p.T, "", "create", "serviceaccount", "default", "-n", namespace)
			if err != nil && strings.Contains(err.Error(), "already exists") || err == nil {
				return nil
			}
			return err
		})
	}
	p.apply(imagePolicies(server.Address))
	p.kubectl("wait", "--for=condition=Ready", "clusterpolicies", "--all")
	pods := p.podClient(4)
	c := &imageClients{podClient: pods, base: p.Config.Host, registry: server.Address}
	right := func() error {
		for _, w := range []struct {
			namespace, image string
			admitted         bool
		}{{"strict", "annotated", true}, {"strict", "unsigned", false}, {"lenient", "annotated", true}, {"lenient", "unsigned", false}} {
			if err := c.wants(w.namespace, w.image, w.admitted); err != nil {
				return err
			}
		}
		return nil
	}
	suite.Until(p.T, "keys are enforced without a mirror", right)
	err = c.wants("people", "keyless-email", false)
	figure(t, "mirror down at the start: identities are refused, keys count", err == nil, "true", err == nil)
	u.down.Store(false)
	took := suite.Until(p.T, "identities are verified", func() error { return c.wants("people", "keyless-email", true) })
	figure(t, "mirror back: identities count after", took.Round(time.Second), "within 60 s", took < time.Minute)

	phase := lasting(40 * time.Second)
	memory := watchMemory(t, replica.PID())
	n := c.storm(phase)
	before := memory()
	wrong := n.strictUnsigned + n.strictSigned + n.lenientUnsigned + n.lenientSigned + n.unavailable
	figure(t, "no fault: wrong decisions", fmt.Sprintf("%d of %d", wrong, n.asked), "0", wrong == 0)

	memory = watchMemory(t, replica.PID())
	for _, fault := range []struct {
		name   string
		outage bool // nothing can be read, so failurePolicy decides
	}{
		{"the connection is cut at once", true}, {"no answer", true}, {"one byte a second", true}, {"429 always", true}, {"500 always", true},
		{"malformed JSON for signatures", true}, {"payloads with other bytes", true}, {"an endless manifest", true}, {"404 for signatures", false}, {"a manifest of 1,000 signatures", false},
	} {
		reg.breakDown(t, fault.name)
		time.Sleep(6 * time.Second) // until earlier results are forgotten
		n := c.storm(phase)
		reg.breakDown(t, "")
		again := suite.Until(p.T, "everything is as before "+fault.name, right)
		t.Logf("%s: %+v", fault.name, n)
		figure(t, fault.name+": unsigned images admitted, Fail", fmt.Sprintf("%d of %d", n.strictUnsigned, n.asked), "0", n.strictUnsigned == 0 && n.asked > 0)
		figure(t, fault.name+": reviews that the API server gave up", n.unavailable, "0", n.unavailable == 0)
		if fault.outage {
			figure(t, fault.name+": signed images refused, Ignore", n.lenientSigned, "0", n.lenientSigned == 0)
		} else {
			figure(t, fault.name+": unsigned images admitted, Ignore", n.lenientUnsigned, "0", n.lenientUnsigned == 0)
		}
		figure(t, fault.name+": right again after", again.Round(100*time.Millisecond), "within 15 s", again < 15*time.Second)
		if err := suite.Alive(replica); err != nil {
			t.Fatal(err)
		}
	}
	most := memory()
	figure(t, "memory with faults, beside that without", fmt.Sprintf("%+.0f MB", most-before), "at most +40 MB", most-before <= 40)

	// Each start looks for updates, and has the results of the previous start.
	for _, restart := range []struct {
		name   string
		change func()
	}{
		{"mirror down at the refresh", func() { u.down.Store(true) }},
		{"root rotated", func() {
			u.down.Store(false)
			key := u.signers[metadata.ROOT]
			u.rotate(metadata.ROOT)
			u.publishRoot(key)
			u.publish(bytes.TrimSpace(f.Trust.TrustedRoot))
		}},
		{"mirror rolled back to a root without signers", func() { u.restore(old) }},
	} {
		suite.Stop(t, replica)
		restart.change()
		asked := u.asked.Load()
		replica = p.start(1, flags...)[0]
		took := suite.Until(p.T, "identities are verified: "+restart.name, func() error { return c.wants("people", "keyless-email", true) })
		suite.Until(p.T, "the mirror is asked", func() error {
			if u.asked.Load() == asked {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		time.Sleep(3 * time.Second) // the update has ended
		err := c.wants("people", "keyless-email", true)
		figure(t, restart.name+": identities count after", took.Round(100*time.Millisecond), "within 30 s, still", err == nil && took < 30*time.Second)
		if err := c.wants("people", "keyless-other", false); err != nil {
			t.Error(err)
		}
	}
}
