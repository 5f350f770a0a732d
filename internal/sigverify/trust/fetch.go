package trust

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/config"
	"github.com/theupdateframework/go-tuf/v2/metadata/updater"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/fetch"
)

// Limits of one update.
const (
	maxRotations  = 64      // rotations of a repository's root since the first known root
	maxDownloads  = 160     // requests
	maxDownloaded = 8 << 20 // bytes
	maxTufRoot    = 512000  // bytes, for the first root
	updateTimeout = 60 * time.Second
)

// trustedRootTarget is the name of the file in a repository that contains all keys and certificates.
const trustedRootTarget = "trusted_root.json"

// snapshot is the result of one update.
type snapshot struct {
	material *root.TrustedRoot
	versions versions
	root     []byte // the last root of the repository, with which the next update starts
	expires  time.Time
	fetched  time.Time
	files    map[string][]byte // all downloaded files, by address
}

// versions are the versions of the repository's metadata. They never decrease, except if the keys that sign them were replaced.
type versions struct {
	root, timestamp, snapshot, targets int64
	timestampKeys, snapshotKeys        string
}

// since returns an error if the versions are a rollback from before.
func (v versions) since(before versions) error {
	switch {
	case v.root < before.root:
		return fmt.Errorf("rollback: version %d of the root is older than %d", v.root, before.root)
	case v.timestampKeys == before.timestampKeys && v.timestamp < before.timestamp:
		return fmt.Errorf("rollback: version %d of the timestamp is older than %d", v.timestamp, before.timestamp)
	case v.snapshotKeys == before.snapshotKeys && v.snapshot < before.snapshot:
		return fmt.Errorf("rollback: version %d of the snapshot is older than %d", v.snapshot, before.snapshot)
	case v.snapshotKeys == before.snapshotKeys && v.targets < before.targets:
		return fmt.Errorf("rollback: version %d of the targets is older than %d", v.targets, before.targets)
	}
	return nil
}

// download reads the files for one update. It implements go-tuf's Fetcher with limits on all resources, and keeps the files that it read.
type download struct {
	get      func(address string, max int64) ([]byte, error)
	requests int
	bytes    int64
	files    map[string][]byte
}

// DownloadFile implements fetcher.Fetcher.
func (d *download) DownloadFile(address string, max int64, _ time.Duration) ([]byte, error) {
	if d.requests++; d.requests > maxDownloads {
		return nil, fmt.Errorf("the repository asks for more than %d requests", maxDownloads)
	}
	left := maxDownloaded - d.bytes
	if max <= 0 || max > left {
		max = left
	}
	body, err := d.get(address, max)
	if err != nil {
		return nil, err
	}
	d.bytes += int64(len(body))
	if d.files == nil {
		d.files = map[string][]byte{}
	}
	d.files[address] = body
	return body, nil
}

// update reads an update repository. It starts with the given root at the given time, and rejects versions older than before. It returns
// the newest verified root even if the rest fails.
func update(address string, first []byte, now time.Time, before versions, get func(string, int64) ([]byte, error)) (_ *snapshot, newest []byte, err error) {
	c, err := config.New(address, first)
	if err != nil {
		return nil, first, err
	}
	d := &download{get: get}
	c.Fetcher, c.DisableLocalCache, c.MaxRootRotations, c.RootMaxLength = d, true, maxRotations, maxTufRoot
	// This folder does not exist. Even without a cache, go-tuf looks there for older metadata.
	c.LocalMetadataDir, c.LocalTargetsDir = "/nonexistent/ephor", "/nonexistent/ephor/targets"
	up, err := updater.New(c)
	if err != nil {
		return nil, first, fmt.Errorf("the first root of the repository: %w", err)
	}
	up.UnsafeSetRefTime(now) // the keeper's time, or the time of the stored update
	refresh := up.Refresh()
	set := up.GetTrustedMetadataSet()
	newest = first
	if text, ok := d.files[rootAddress(address, set.Root.Signed.Version)]; ok {
		newest = text
	}
	if refresh != nil {
		return nil, newest, refresh
	}
	targets := set.Targets[metadata.TARGETS]
	v := versions{
		root: set.Root.Signed.Version, timestamp: set.Timestamp.Signed.Version, snapshot: set.Snapshot.Signed.Version, targets: targets.Signed.Version,
		timestampKeys: keysOf(set.Root, metadata.TIMESTAMP), snapshotKeys: keysOf(set.Root, metadata.SNAPSHOT),
	}
	if err := v.since(before); err != nil {
		return nil, newest, err
	}
	s := &snapshot{versions: v, root: newest, fetched: now, expires: earliest(set.Root.Signed.Expires, set.Timestamp.Signed.Expires, set.Snapshot.Signed.Expires, targets.Signed.Expires)}
	if s.material, err = material(up, targets.Signed.Targets); err != nil {
		return nil, newest, err
	}
	s.files = d.files
	return s, newest, nil
}

// material reads the keys and certificates of a repository whose metadata is verified.
func material(up *updater.Updater, targets map[string]*metadata.TargetFiles) (*root.TrustedRoot, error) {
	read := func(name string, max int64) ([]byte, error) {
		info, err := up.GetTargetInfo(name)
		if err != nil {
			return nil, err
		}
		if info.Length <= 0 || info.Length > max {
			return nil, fmt.Errorf("%s has %d bytes, more than %d", name, info.Length, max)
		}
		_, text, err := up.DownloadTarget(info, "unused", "")
		return text, err
	}
	if info, err := up.GetTargetInfo(trustedRootTarget); err == nil && info != nil {
		text, err := read(trustedRootTarget, maxRoot)
		if err != nil {
			return nil, err
		}
		return parse(text)
	} else if fetched := (*metadata.ErrDownloadHTTP)(nil); errors.As(err, &fetched) {
		return nil, err // delegated metadata could not be read
	}
	usages := legacyFiles(targets)
	if len(usages) > maxLegacy {
		return nil, fmt.Errorf("the repository contains %d files of Sigstore, more than %d", len(usages), maxLegacy)
	}
	files := map[string][]byte{}
	for name := range usages {
		text, err := read(name, maxLegacyBytes)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return fromLegacy(files, usages)
}

func rootAddress(address string, version int64) string {
	return fmt.Sprintf("%s/%d.root.json", strings.TrimSuffix(address, "/"), version)
}

func keysOf(r *metadata.Metadata[metadata.RootType], role string) string {
	if d := r.Signed.Roles[role]; d != nil {
		return strings.Join(d.KeyIDs, " ")
	}
	return ""
}

func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// get reads a file of at most max bytes. It sends no request to an address that check rejects, and follows no redirect to one.
func get(ctx context.Context, next http.RoundTripper, check func(*url.URL) error, address string, max int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address cannot be read")
	}
	if err := check(u); err != nil {
		return nil, err
	}
	client := &http.Client{Transport: next, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 || via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return errors.New("the redirect is not followed")
		}
		return check(r.URL)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "ephor")
	answer, body, err := fetch.Do(client, req, max)
	switch {
	case answer != nil && answer.StatusCode != http.StatusOK:
		return nil, &metadata.ErrDownloadHTTP{StatusCode: answer.StatusCode, URL: u.Redacted()}
	case bounded.Exceeded(err):
		return nil, fmt.Errorf("%s has %w", u.Redacted(), err)
	}
	return body, err
}

// again returns a function that reads the stored files of an earlier update.
func again(files map[string][]byte) func(string, int64) ([]byte, error) {
	files = maps.Clone(files)
	return func(address string, max int64) ([]byte, error) {
		text, ok := files[address]
		if !ok {
			return nil, &metadata.ErrDownloadHTTP{StatusCode: http.StatusNotFound, URL: address}
		}
		if int64(len(text)) > max {
			return nil, fmt.Errorf("%s has more than %d bytes", address, max)
		}
		return text, nil
	}
}
