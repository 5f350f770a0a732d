package trust

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tuf"

	"ephor.invalid/ephor/internal/world"
)

// DefaultMirror is the update repository of Sigstore's public instance.
const DefaultMirror = tuf.DefaultMirror

// Times for updates.
const (
	// Grace is how long a root stays valid after its metadata expired, if it could not be renewed.
	Grace = 30 * 24 * time.Hour

	renewal     = 24 * time.Hour   // between updates, a tenth of it random
	firstRetry  = 10 * time.Second // after a failure, doubled for each further failure
	lastRetry   = time.Hour
	tick        = 30 * time.Second
	unusedAfter = 7 * 24 * time.Hour // how long an unused root is still renewed
	fileReread  = 10 * time.Second
)

// The maximum number of roots that are kept, separately for cluster-wide and for namespaced policies.
const (
	maxMirrors = 32
	maxInline  = 64
)

// Options configure the sources of trust. With the zero Options, only the root in the release is known, and nothing is fetched.
type Options struct {
	// HTTP is the transport for updates. It must reject forbidden addresses; nil means that nothing is fetched.
	HTTP http.RoundTripper
	// Permit returns the reason why a namespaced policy may not use an address, or nil if it may. A nil Permit permits all addresses.
	Permit func(*url.URL) error

	// Mirror replaces the repository of the public instance. RootPath (a file or an address) or RootData is its first root. If neither
	// is set, it is the root of the public instance.
	Mirror, RootPath string
	RootData         []byte

	// Offline: nothing is fetched. OfflineRoot is a file with the trusted root; empty for the root in the release.
	Offline     bool
	OfflineRoot string

	// CacheDir is a writable folder for the results of updates; empty for none.
	CacheDir string

	Log *slog.Logger
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Keeper provides trust material and keeps it up to date. It is safe for concurrent use.
type Keeper struct {
	o   Options
	now func() time.Time

	mu       sync.Mutex
	base     context.Context // the context of updates
	mirrors  map[mirrorKey]*mirror
	inline   map[inlineKey]*inlineRoot
	file     fileRoot
	flights  sync.WaitGroup
	disabled bool // Run has ended
}

type mirrorKey struct {
	address, rootPath string
	rootData          [sha256.Size]byte
	confined          bool
}

type inlineKey struct {
	text     [sha256.Size]byte
	confined bool
}

type inlineRoot struct {
	material *root.TrustedRoot
	used     time.Time
}

// New checks the options and returns a Keeper. It sends no requests.
func New(o Options) (*Keeper, error) {
	if o.Mirror != "" {
		if err := checkAddress(o.Mirror, true); err != nil {
			return nil, fmt.Errorf("the mirror of trust roots: %w", err)
		}
	}
	if len(o.RootData) > maxTufRoot {
		return nil, fmt.Errorf("the first root of the mirror has %d bytes, more than %d", len(o.RootData), maxTufRoot)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{o: o, now: o.Now, base: context.Background(), mirrors: map[mirrorKey]*mirror{}, inline: map[inlineKey]*inlineRoot{}}
	if k.now == nil {
		k.now = time.Now
	}
	return k, nil
}

// checkAddress rejects texts that are not an address of a web server.
func checkAddress(text string, plain bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("the address cannot be read")
	case u.Scheme != "https" && (u.Scheme != "http" || !plain):
		return errors.New("the address does not begin with https://")
	case u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the address must consist of a host and a path")
	}
	return nil
}

// Run renews the roots in use until ctx is done. It does not fetch roots that are not in use.
func (k *Keeper) Run(ctx context.Context) error {
	k.mu.Lock()
	k.base = ctx
	k.mu.Unlock()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			k.mu.Lock()
			k.disabled = true
			k.mu.Unlock()
			k.flights.Wait()
			return nil
		case <-ticker.C:
			k.renew()
		}
	}
}

// renew starts the updates that are due.
func (k *Keeper) renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, m := range k.mirrors {
		if k.now().Sub(m.used) > unusedAfter {
			delete(k.mirrors, key)
			continue
		}
		k.begin(m)
	}
}

// Material returns the keys of logs and authorities for a trust. It waits for the network only if no keys are known, and no longer
// than ctx allows. An error means that the keys are unknown, never that a signature is invalid.
func (k *Keeper) Material(ctx context.Context, t world.Trust) (root.TrustedMaterial, error) {
	if t.TrustedRoot != "" {
		return k.ofPolicy(t)
	}
	named := t.Mirror != "" || t.RootPath != "" || t.RootData != ""
	if k.o.Offline {
		if named {
			return nil, fmt.Errorf("the trust root of %s cannot be fetched: this process works offline; the policy can contain the trusted root itself", cmp.Or(t.Mirror, DefaultMirror))
		}
		return k.offline()
	}
	m, err := k.mirror(t, named)
	if err != nil {
		return nil, err
	}
	return k.await(ctx, m)
}

// ofPolicy returns a trusted root that is part of a policy.
func (k *Keeper) ofPolicy(t world.Trust) (root.TrustedMaterial, error) {
	if len(t.TrustedRoot) > maxRoot {
		return nil, fmt.Errorf("the trusted root has %d bytes, more than %d", len(t.TrustedRoot), maxRoot)
	}
	key := inlineKey{sha256.Sum256([]byte(t.TrustedRoot)), t.Confined}
	k.mu.Lock()
	known := k.inline[key]
	if known != nil {
		known.used = k.now()
	}
	k.mu.Unlock()
	if known != nil {
		return known.material, nil
	}
	material, err := parse([]byte(t.TrustedRoot))
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	room(k.inline, maxInline, func(key inlineKey) bool { return key.confined == t.Confined }, func(r *inlineRoot) time.Time { return r.used })
	k.inline[key] = &inlineRoot{material, k.now()}
	return material, nil
}

// room makes room for an entry: if there are too many entries of its kind, it removes the least recently used one.
func room[K comparable, V any](entries map[K]V, most int, sort func(K) bool, used func(V) time.Time) {
	var oldest K
	n := 0
	for key, v := range entries {
		if !sort(key) {
			continue
		}
		if n++; n == 1 || used(v).Before(used(entries[oldest])) {
			oldest = key
		}
	}
	if n >= most {
		delete(entries, oldest)
	}
}

// mirror returns the mirror of a trust. It adds the mirror if it is new.
func (k *Keeper) mirror(t world.Trust, named bool) (*mirror, error) {
	key := mirrorKey{address: k.o.Mirror, rootPath: k.o.RootPath, rootData: sha256.Sum256(k.o.RootData)}
	first := firstRoot{path: k.o.RootPath, data: k.o.RootData, operator: true}
	if named {
		key = mirrorKey{address: t.Mirror, rootPath: t.RootPath, confined: t.Confined}
		first = firstRoot{path: t.RootPath}
		if t.RootData != "" {
			data, err := rootData(t.RootData)
			if err != nil {
				return nil, err
			}
			first.data, key.rootData = data, sha256.Sum256(data)
		}
		if t.Mirror != "" {
			if err := checkAddress(t.Mirror, true); err != nil {
				return nil, fmt.Errorf("tuf.mirror: %w", err)
			}
		}
		if t.RootPath != "" {
			if err := checkAddress(t.RootPath, false); err != nil {
				return nil, fmt.Errorf("tuf.root.path: %w", err)
			}
		}
	}
	key.address = strings.TrimSuffix(cmp.Or(key.address, DefaultMirror), "/")
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.mirrors[key]
	if m == nil {
		room(k.mirrors, maxMirrors, func(other mirrorKey) bool { return other.confined == key.confined }, func(m *mirror) time.Time { return m.used })
		m = &mirror{key: key, first: first}
		// Until the first update, only the release vouches for the public instance.
		m.public = key.address == DefaultMirror && first.path == "" && len(first.data) == 0
		k.mirrors[key] = m
		k.restore(m)
	}
	m.used = k.now()
	return m, nil
}

// rootData decodes the first root of a repository from a policy: JSON, or JSON in base64.
func rootData(text string) ([]byte, error) {
	if len(text) > 2*maxTufRoot {
		return nil, errors.New("tuf.root.data is too long")
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return []byte(text), nil
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("tuf.root.data is neither JSON nor base64")
	}
	return data, nil
}

// fileRoot is a trusted root in a file, such as a file of a mounted ConfigMap.
type fileRoot struct {
	material *root.TrustedRoot
	text     [sha256.Size]byte
	read     time.Time // when the file was last read
	err      error
}

// offline returns the root in the release, or the root in the file. It reads a changed file again. If the file can no longer be read,
// the last valid root stays in use.
func (k *Keeper) offline() (root.TrustedMaterial, error) {
	if k.o.OfflineRoot == "" {
		material, err := embedded()
		if err != nil {
			return nil, err
		}
		return material, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := &k.file
	if f.read.IsZero() || k.now().Sub(f.read) >= fileReread || f.material == nil {
		f.read = k.now()
		before := f.err
		if f.err = f.load(k.o.OfflineRoot); f.err != nil && (before == nil || before.Error() != f.err.Error()) {
			k.o.Log.Error("the file of the trusted root cannot be used", "file", k.o.OfflineRoot, "error", f.err, "kept", f.material != nil)
		}
	}
	if f.material == nil {
		return nil, f.err
	}
	return f.material, nil
}

func (f *fileRoot) load(path string) error {
	text, err := readFile(path, maxRoot)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	if f.material != nil && sum == f.text {
		return nil
	}
	material, err := parse(text)
	if err != nil {
		return err
	}
	f.material, f.text = material, sum
	return nil
}

func readFile(path string, max int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > max {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", path, max)
	}
	return os.ReadFile(path)
}

// Status is the state of one root.
type Status struct {
	// Source is the address of the mirror or, for a root that is not updated, its origin: release or file.
	Source string
	// Confined: only namespaced policies use it.
	Confined bool
	// Fetched is the time of the last successful update, and Expires the time at which its metadata expires; both are zero before the first
	// update.
	Fetched, Expires time.Time
	// Failures is the number of failed updates since then, and Err the last failure.
	Failures int
	Err      error
}

// Statuses returns the states of the roots that are in use and can expire.
func (k *Keeper) Statuses() []Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Status
	if k.o.Offline {
		if k.o.OfflineRoot == "" {
			return []Status{{Source: "release", Fetched: embeddedAt}}
		}
		return []Status{{Source: "file", Fetched: k.file.read, Err: k.file.err}}
	}
	for key, m := range k.mirrors {
		s := Status{Source: key.address, Confined: key.confined, Failures: m.failures, Err: m.err}
		if m.last != nil {
			s.Fetched, s.Expires = m.last.fetched, m.last.expires
		} else if m.public {
			s.Fetched = embeddedAt
		}
		out = append(out, s)
	}
	return out
}
