package source

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

const (
	fetchTimeout = 60 * time.Second
	fetchLimit   = 256 << 20 // bytes
)

// fetch reads a file over HTTP.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", fmt.Errorf("the server answers %s", resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, fetchLimit+1))
	if err == nil && len(b) > fetchLimit {
		err = fmt.Errorf("the file is larger than %d MiB", fetchLimit>>20)
	}
	return string(b), err
}

// url adds what a URL stands for: one file, or the manifests of a git repository.
func (f *finder) url(path string) {
	if f.seen[path] {
		return
	}
	f.seen[path] = true
	ctx := f.options.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if f.options.Git == nil {
		text, err := fetch(ctx, path)
		if err != nil {
			f.fail(path, "check the URL", "%v", err)
			return
		}
		f.inputs = append(f.inputs, Input{Name: path, Named: true, text: text, read: true})
		return
	}
	folder, remove, err := f.options.Git.Clone(ctx, path)
	if err != nil {
		f.fail(path, "", "%v", err)
		return
	}
	defer remove()
	inner := finder{options: f.options, seen: map[string]bool{}}
	inner.directory(folder)
	for _, in := range inner.inputs {
		text, err := in.Read()
		if err != nil {
			continue // it would be no manifest that a policy engine can use
		}
		name, err := filepath.Rel(folder, in.Name)
		if err != nil {
			name = in.Name
		}
		f.inputs = append(f.inputs, Input{Name: strings.TrimSuffix(path, "/") + "/" + filepath.ToSlash(name), text: strings.Clone(text), read: true, Repository: true})
	}
}
