package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tuf"
)

// mirror is an update repository. The keeper's lock guards it.
type mirror struct {
	key    mirrorKey
	first  firstRoot
	public bool // the release contains a root for it

	last   *snapshot // the last valid snapshot; nil before the first one
	newest []byte    // the last verified root of the repository
	roots  map[string][]byte
	used   time.Time

	flight   chan struct{} // closed when the running update ends
	next     time.Time     // when the next update is due
	failures int
	err      error
}

// firstRoot is the root with which the trust in a repository starts.
type firstRoot struct {
	path     string
	data     []byte
	operator bool // the path comes from a flag and may name a file
}

// firstWait is how long to wait for the first update of the public instance before the root of the release is used.
const firstWait = 3 * time.Second

// await returns the known material of a mirror. If there is none, it waits for the running update. If there is only the root in the
// release, which lacks recently added logs, it waits a short time for the first update.
func (k *Keeper) await(ctx context.Context, m *mirror) (root.TrustedMaterial, error) {
	for waited := false; ; waited = true {
		k.mu.Lock()
		k.begin(m)
		material, err := k.known(m)
		flight, begins := m.flight, m.last == nil && m.failures == 0
		k.mu.Unlock()
		if flight == nil || waited || material != nil && !begins {
			return material, err
		}
		var late <-chan time.Time
		if material != nil {
			timer := time.NewTimer(firstWait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-ctx.Done():
			if material != nil {
				return material, nil
			}
			return nil, fmt.Errorf("the trust root of %s is not available yet: %w", m.key.address, ctx.Err())
		case <-late:
			return material, nil
		case <-flight:
		}
	}
}

// known returns the material that is currently valid.
func (k *Keeper) known(m *mirror) (root.TrustedMaterial, error) {
	switch {
	case m.last != nil && !k.now().After(m.last.expires.Add(Grace)):
		return m.last.material, nil
	case m.last != nil:
		return nil, fmt.Errorf("the trust root of %s expired on %s and could not be renewed: %w", m.key.address, m.last.expires.UTC().Format(time.DateOnly), because(m.err))
	case m.public:
		material, err := embedded()
		if err != nil {
			return nil, err
		}
		return material, nil
	}
	return nil, fmt.Errorf("the trust root of %s could not be fetched: %w", m.key.address, because(m.err))
}

func because(err error) error {
	if err == nil {
		return errors.New("the update is under way")
	}
	return err
}

// begin starts an update of the mirror if one is due and none is running.
func (k *Keeper) begin(m *mirror) {
	if m.flight != nil || k.disabled || k.now().Before(m.next) {
		return
	}
	if k.o.HTTP == nil {
		m.err, m.next = errors.New("this process does not fetch updates"), k.now().Add(lastRetry)
		return
	}
	flight := make(chan struct{})
	m.flight = flight
	base := k.base
	k.flights.Go(func() {
		ctx, cancel := context.WithTimeout(base, updateTimeout)
		defer cancel()
		k.fly(ctx, m)
		k.mu.Lock()
		m.flight = nil
		k.mu.Unlock()
		close(flight)
	})
}

// fly updates a mirror, and schedules the next update.
func (k *Keeper) fly(ctx context.Context, m *mirror) {
	k.mu.Lock()
	first, before := m.newest, versions{}
	if m.last != nil {
		before = m.last.versions
	}
	k.mu.Unlock()
	var got *snapshot
	var err error
	if first == nil {
		first, err = k.firstRoot(ctx, m)
	}
	newest := first
	if err == nil {
		got, newest, err = guarded(m.key.address, first, k.now(), before, func(address string, max int64) ([]byte, error) {
			return get(ctx, k.o.HTTP, k.check(m), address, max)
		})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil || !bytes.Equal(newest, first) { // a first root that led to nothing may be wrong, and is read again
		m.newest = newest
	}
	if err != nil {
		m.failures++
		if m.err == nil || m.err.Error() != err.Error() {
			k.o.Log.Warn("the trust root could not be renewed", "mirror", m.key.address, "error", err, "kept", m.last != nil || m.public)
		}
		wait := min(lastRetry, firstRetry<<min(m.failures-1, 10))
		m.err, m.next = err, k.now().Add(wait+rand.N(wait/4))
		return
	}
	m.err, m.failures = nil, 0
	m.last = got
	wait := renewal
	if left := got.expires.Sub(k.now()) / 2; left < wait {
		wait = max(left, 10*time.Minute) // a repository whose metadata expires sooner
	}
	m.next = k.now().Add(wait - rand.N(wait/10))
	k.store(m)
}

// guarded calls update, and converts a panic in a library that parses the mirror's data to an error.
func guarded(address string, first []byte, now time.Time, before versions, get func(string, int64) ([]byte, error)) (got *snapshot, newest []byte, err error) {
	newest = first
	defer func() {
		if p := recover(); p != nil {
			got, err = nil, fmt.Errorf("the repository cannot be read: %v", p)
		}
	}()
	return update(address, first, now, before, get)
}

// check returns the function that checks the addresses of a mirror.
func (k *Keeper) check(m *mirror) func(*url.URL) error {
	return func(u *url.URL) error {
		if u.Scheme != "https" && u.Scheme != "http" {
			return errors.New("the address is neither http nor https")
		}
		if m.key.confined && k.o.Permit != nil {
			return k.o.Permit(u)
		}
		return nil
	}
}

// firstRoot reads the root with which the trust in a repository starts.
func (k *Keeper) firstRoot(ctx context.Context, m *mirror) ([]byte, error) {
	switch {
	case len(m.first.data) > 0:
		return m.first.data, nil
	case m.first.path == "":
		return tuf.DefaultRoot(), nil
	case m.first.operator && !strings.Contains(m.first.path, "://"):
		return readFile(m.first.path, maxTufRoot)
	}
	return get(ctx, k.o.HTTP, k.check(m), m.first.path, maxTufRoot)
}

// stored is the cached content of a mirror: all files that its last update read. When it is read, everything is verified again,
// beginning with the first root.
type stored struct {
	Address string            `json:"address"`
	Fetched time.Time         `json:"fetched"`
	Files   map[string][]byte `json:"files"`
}

// maxStored is the maximum size of a cache file.
const maxStored = 4 * maxDownloaded

// cacheFile returns the name of the cache file for a mirror. The name contains no text that a mirror or a policy chose.
func (k *Keeper) cacheFile(m *mirror) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %x %v", m.key.address, m.key.rootPath, m.key.rootData, m.key.confined)
	return filepath.Join(k.o.CacheDir, "trust-"+hex.EncodeToString(sum.Sum(nil)[:16])+".json")
}

// store writes the cache. If that fails, the next start only has to fetch the files again.
func (k *Keeper) store(m *mirror) {
	files := m.last.files
	m.last.files = nil // only the parsed content is needed from now on
	if k.o.CacheDir == "" || m.first.path != "" {
		return // the next start would not know a first root that was fetched
	}
	m.keepRoots(files)
	maps.Copy(files, m.roots)
	text, err := json.Marshal(stored{m.key.address, m.last.fetched, files})
	if err == nil && len(text) <= maxStored {
		err = writeFile(k.cacheFile(m), text)
	}
	if err != nil {
		k.o.Log.Warn("the trust root could not be saved for the next start", "mirror", m.key.address, "error", err)
	}
}

// writeFile replaces a file atomically.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "trust-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// restore reads the cache. Files that are missing or cannot be verified are fetched.
func (k *Keeper) restore(m *mirror) {
	if k.o.CacheDir == "" || m.first.path != "" {
		return
	}
	text, err := readFile(k.cacheFile(m), maxStored)
	var s stored
	if err != nil || json.Unmarshal(text, &s) != nil || s.Address != m.key.address || s.Fetched.After(k.now()) {
		return
	}
	first := m.first.data
	if len(first) == 0 {
		first = tuf.DefaultRoot()
	}
	got, newest, err := guarded(m.key.address, first, s.Fetched, versions{}, again(s.Files))
	if err != nil {
		k.o.Log.Warn("the trust root of the last start cannot be used", "mirror", m.key.address, "error", err)
		return
	}
	got.files = nil
	m.last, m.newest = got, newest
	m.keepRoots(s.Files)
}

// keepRoots adds the root files of the repository, because the next start verifies all of them, beginning with the first.
func (m *mirror) keepRoots(files map[string][]byte) {
	if m.roots == nil {
		m.roots = map[string][]byte{}
	}
	for address, text := range files {
		if strings.HasSuffix(address, ".root.json") {
			m.roots[address] = text
		}
	}
}
