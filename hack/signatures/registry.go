package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"
)

// registries answers for every host: each is an initially empty registry in memory. It records what is pushed in order.
type registries struct {
	mu     sync.Mutex
	hosts  map[string]http.Handler
	pushed []*pushed
}

// pushed is a manifest that was pushed.
type pushed struct {
	repository string // with the host
	tags       []string
	digest     string
	mediaType  string
	body       []byte
	manifest   manifest
}

// manifest has the relevant fields of all kinds of manifests.
type manifest struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType"`
	Config       *descriptor       `json:"config"`
	Layers       []descriptor      `json:"layers"`
	Manifests    []descriptor      `json:"manifests"`
	Subject      *descriptor       `json:"subject"`
	Annotations  map[string]string `json:"annotations"`
}

type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

func newRegistries() *registries {
	return &registries{hosts: map[string]http.Handler{}}
}

func (r *registries) host(name string) http.Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[name] == nil {
		r.hosts[name] = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	}
	return r.hosts[name]
}

func (r *registries) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	host := strings.TrimSuffix(req.Host, ":443")
	repository, rest, last := split(req.URL.Path)
	full := host + "/" + repository
	switch {
	case rest == "manifests" && req.Method == http.MethodPut:
		body, err := io.ReadAll(io.LimitReader(req.Body, 8<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p, err := r.store(full, last, req.Header.Get("Content-Type"), body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if p.manifest.Subject != nil {
			w.Header().Set("OCI-Subject", p.manifest.Subject.Digest)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	case rest == "referrers":
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		json.NewEncoder(w).Encode(map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": r.referrers(full, last),
		})
		return
	}
	r.host(host).ServeHTTP(w, req)
}

// split splits a path of a registry: repository, kind of object, and its name.
func split(path string) (repository, kind, last string) {
	parts := strings.Split(strings.TrimPrefix(path, "/v2/"), "/")
	if len(parts) < 3 {
		return "", "", ""
	}
	n := len(parts)
	return strings.Join(parts[:n-2], "/"), parts[n-2], parts[n-1]
}

func (r *registries) store(repository, reference, mediaType string, body []byte) (*pushed, error) {
	sum := sha256.Sum256(body)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	var p *pushed
	for _, q := range r.pushed {
		if q.repository == repository && q.digest == digest {
			p = q
		}
	}
	if p == nil {
		p = &pushed{repository: repository, digest: digest, mediaType: mediaType, body: body}
		if err := json.Unmarshal(body, &p.manifest); err != nil {
			return nil, err
		}
		r.pushed = append(r.pushed, p)
	}
	if !strings.Contains(reference, ":") {
		for _, q := range r.pushed { // a tag moves
			if q.repository == repository {
				q.tags = slices.DeleteFunc(q.tags, func(t string) bool { return t == reference })
			}
		}
		p.tags = append(p.tags, reference)
	}
	return p, nil
}

func (r *registries) referrers(repository, digest string) []descriptor {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []descriptor{}
	for _, p := range r.pushed {
		if p.repository != repository || p.manifest.Subject == nil || p.manifest.Subject.Digest != digest {
			continue
		}
		d := descriptor{MediaType: p.mediaType, Digest: p.digest, Size: int64(len(p.body)), ArtifactType: p.manifest.ArtifactType, Annotations: p.manifest.Annotations}
		if d.ArtifactType == "" && p.manifest.Config != nil {
			d.ArtifactType = p.manifest.Config.MediaType
		}
		list = append(list, d)
	}
	return list
}

// blob reads a blob in a repository.
func (r *registries) blob(repository, digest string) ([]byte, error) {
	host, path, _ := strings.Cut(repository, "/")
	req := httptest.NewRequest(http.MethodGet, "https://"+host+"/v2/"+path+"/blobs/"+digest, nil)
	w := httptest.NewRecorder()
	r.host(host).ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("%s has no blob %s: status %d", repository, digest, w.Code)
	}
	return w.Body.Bytes(), nil
}

// find returns a manifest of a repository.
func (r *registries) find(repository, digest string) (*pushed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pushed {
		if p.repository == repository && p.digest == digest {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s has no manifest %s", repository, digest)
}
