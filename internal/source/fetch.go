package source

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/diag"
)

const fetchTimeout = 60 * time.Second

// fetch reads a file over HTTP. net/http sends a user name and password in the URL only to its host, not to the target of a
// redirect.
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
	b, err := readAll(resp.Body, maxFile)
	return string(b), err
}

// url adds the content of a URL: one file, or the manifests of a git repository.
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
	repository, remove, err := f.options.Git.Clone(ctx, path)
	if err != nil {
		f.fail(path, "", "%v", err)
		return
	}
	defer remove()
	base := strings.TrimSuffix(path, "/") + "/"
	passedOver := func(name string, err error) { // a policy engine could not use such a file as a manifest
		f.diags.Add(diag.Diagnostic{Severity: diag.Warning, Pos: diag.Position{File: base + filepath.ToSlash(name)}, Summary: reason(err), Hint: "it is passed over"})
	}
	for _, r := range repository.Removed {
		if isManifest(r.Name) {
			passedOver(r.Name, r.Err)
		}
	}
	inner := finder{options: f.options, seen: map[string]bool{}}
	inner.directory(repository.Folder)
	for _, d := range inner.diags { // they name the folder of the clone, which is gone afterwards
		d.Pos.File = strings.Replace(d.Pos.File, repository.Folder, strings.TrimSuffix(path, "/"), 1)
		d.Hint = strings.ReplaceAll(d.Hint, repository.Folder, strings.TrimSuffix(path, "/"))
		f.diags.Add(d)
	}
	total := 0
	for _, in := range inner.inputs {
		name, err := filepath.Rel(repository.Folder, in.Name)
		if err != nil {
			name = in.Name
		}
		text, err := in.Read()
		if err != nil {
			passedOver(name, err)
			continue
		}
		if total += len(text); total > maxRepository {
			f.fail(path, "name a folder of the repository", "the manifests of the repository are larger than %d MiB together", maxRepository>>20)
			return
		}
		f.inputs = append(f.inputs, Input{Name: base + filepath.ToSlash(name), text: text, read: true, Repository: true})
	}
}
