package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// repository serves a git repository as owner/repo: the branch main with one policy and another file, the branch next with another
// policy. If secured, it requires user:secret.
func repository(t *testing.T, secured bool) string {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	work := filepath.Join(root, "owner", "repo")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-C", work}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("policies/one.yaml", object+"one\n")
	put("chart/values.yaml", "replicas: 1\n")
	put("docs/page.md", "no manifest\n")
	run("init", "-q", "-b", "main")
	run("add", ".")
	run("commit", "-q", "-m", "one")
	run("checkout", "-q", "-b", "next")
	put("policies/two.yaml", object+"two\n")
	run("add", ".")
	run("commit", "-q", "-m", "two")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); secured && (user != "user" || password != "secret") {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/owner/repo"
}

func TestGit(t *testing.T) {
	url := repository(t, false)
	for _, c := range []struct {
		path, branch string
		want         []string
		mistake      string
	}{
		{url, "", []string{"one"}, ""},
		{url + "/next", "", []string{"one", "two"}, ""},
		{url + "/policies", "next", []string{"one", "two"}, ""},
		{url + "/chart", "main", nil, "chart"},
		{url + "/docs", "main", nil, url + "/docs: no manifests in this directory"},
		{url + "/gone", "", nil, "failed to clone the branch gone"},
		{url + "/nowhere", "main", nil, "has no folder nowhere"},
		{url + "/../../etc", "main", nil, "this names no branch and no folder"},
		{url, "--upload-pack=x", nil, "this names no branch"},
		{strings.TrimSuffix(url, "/repo"), "", nil, "this is not the URL of a git repository"},
	} {
		objects, diags := Load([]string{c.path}, Options{Recursive: true, Git: &Git{Branch: c.branch}, Context: context.Background()})
		if got := names(objects); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: %v, want %v (%v)", c.path, c.branch, got, c.want, diags)
		}
		if c.mistake == "" && diags.HasErrors() || !strings.Contains(diags.Error(), c.mistake) {
			t.Errorf("%s %s: %v, want %q", c.path, c.branch, diags, c.mistake)
		}
		for _, o := range objects {
			if !o.Among || !strings.HasPrefix(o.File, url) {
				t.Errorf("%s is said to be from %s", o.Name(), o.File)
			}
		}
	}
}

func TestGitPassword(t *testing.T) {
	url := repository(t, true)
	if _, diags := Load([]string{url}, Options{Recursive: true, Git: &Git{}}); !diags.HasErrors() {
		t.Error("a repository that wants a password gives its files without")
	}
	objects, diags := Load([]string{url}, Options{Recursive: true, Git: &Git{Username: "user", Password: "secret"}})
	if len(objects) != 1 || diags.HasErrors() {
		t.Errorf("%v %v", names(objects), diags)
	}
}

// The configuration of git in the environment, as pipelines set it, also holds when there is a password.
func TestGitConfiguration(t *testing.T) {
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "http.sslCAInfo")
	t.Setenv("GIT_CONFIG_VALUE_0", "/etc/ca.pem")
	env, err := Git{Username: "user", Password: "secret"}.environment("https://git.example/owner/repo")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"http.sslCAInfo": "/etc/ca.pem", "credential.https://git.example.helper": "EPHOR_GIT_PASSWORD"} {
		cmd := exec.Command("git", "config", "--get", key)
		cmd.Env = env
		if got, err := cmd.Output(); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v", key, got, err)
		}
	}
}

// In a hook of git, the environment names the repository of the hook: a clone leaves its index and its files alone.
func TestGitInAHook(t *testing.T) {
	url, index := repository(t, false), filepath.Join(t.TempDir(), "index")
	if err := os.WriteFile(index, []byte("staged"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"GIT_INDEX_FILE": index, "GIT_DIR": filepath.Dir(index), "GIT_WORK_TREE": filepath.Dir(index), "GIT_PREFIX": ""} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			objects, diags := Load([]string{url}, Options{Recursive: true, Git: &Git{}, Context: t.Context()})
			if len(objects) != 1 || diags.HasErrors() {
				t.Errorf("%v %v", names(objects), diags)
			}
			if text, err := os.ReadFile(index); string(text) != "staged" {
				t.Errorf("the index of the hook's repository holds %d other bytes, %v", len(text), err)
			}
		})
	}
}

// Without Git, a URL is a file.
func TestFetch(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/pod.yaml" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write([]byte(object + "fetched\n"))
	}))
	defer server.Close()
	objects, diags := Load([]string{server.URL + "/pod.yaml", server.URL + "/pod.yaml", server.URL + "/gone.yaml"}, Options{})
	if got := names(objects); !reflect.DeepEqual(got, []string{"fetched"}) || !strings.Contains(diags.Error(), "gone.yaml: the server answers 404 Not Found") {
		t.Errorf("%v %v", got, diags)
	}
}

// evil serves a git repository with files that lead to the outside; secret is a file there.
func evil(t *testing.T, secret string) string {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	work := filepath.Join(root, "owner", "repo")
	for _, dir := range []string{"policies", "shared"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"policies/one.yaml": object + "one\n", "shared/two.txt": object + "two\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"policies/secret.yaml": secret, "policies/zero.yaml": "/dev/zero", "policies/inside.yaml": "../shared/two.txt",
		"policies/config.yaml": "../.git/config", "policies/round.yaml": "round.yaml", "away": filepath.Dir(secret),
	} {
		if err := os.Symlink(target, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "one"}} {
		cmd := exec.Command(git, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-C", work}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	server := httptest.NewServer(backend(git, root))
	t.Cleanup(server.Close)
	return server.URL + "/owner/repo"
}

// backend serves the repositories below root.
func backend(git, root string) http.Handler {
	return &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}}
}

// From a repository only its own files are read: links that lead out of it, into git's own folder, in circles or to devices are
// skipped, and reported.
func TestT12LinksOutOfARepository(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(outside, []byte(object+"secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := evil(t, outside)
	objects, diags := Load([]string{url}, Options{Recursive: true, Git: &Git{}, Context: t.Context()})
	if got := names(objects); !reflect.DeepEqual(got, []string{"two", "one"}) {
		t.Errorf("the repository gives %v", got)
	}
	if diags.HasErrors() {
		t.Errorf("a file that is passed over is an error: %v", diags)
	}
	for _, name := range []string{"secret.yaml", "zero.yaml", "config.yaml", "round.yaml"} {
		if !strings.Contains(diags.Error(), name) {
			t.Errorf("%s is passed over silently: %v", name, diags)
		}
	}
	for _, folder := range []string{"/away", "/.git", "/policies/zero.yaml"} {
		objects, diags := Load([]string{url + folder}, Options{Recursive: true, Git: &Git{Branch: "main"}, Context: t.Context()})
		if len(objects) != 0 || !diags.HasErrors() {
			t.Errorf("the folder %s gives %v, %v", folder, names(objects), diags)
		}
	}
}

// A password is sent only to the host of the URL: the target of a redirect receives none, in no request of the clone.
func TestT12PasswordAndRedirects(t *testing.T) {
	at, err := url.Parse(repository(t, false))
	if err != nil {
		t.Fatal(err)
	}
	at.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(at)
	var mu sync.Mutex
	var got []string
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		if header := r.Header.Get("Authorization"); header != "" {
			got = append(got, r.Method+" "+header)
		}
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(other.Close)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "user" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	t.Cleanup(host.Close)
	withUser := strings.Replace(host.URL, "http://", "http://user:secret@", 1)
	for _, from := range []struct {
		url string
		git *Git
	}{{host.URL + "/owner/repo", &Git{Username: "user", Password: "secret"}}, {withUser + "/owner/repo", &Git{}}, {withUser + "/policy.yaml", nil}} {
		mu.Lock()
		before := asked
		mu.Unlock()
		Load([]string{from.url}, Options{Recursive: true, Git: from.git, Context: t.Context()})
		mu.Lock()
		if asked == before {
			t.Errorf("%s: the redirect was not followed: nothing is tested", from.url)
		}
		for _, header := range got {
			t.Errorf("%s: another host is sent %s", from.url, header)
		}
		got = nil
		mu.Unlock()
	}
}

// A clone of a repository that would fill the disk is aborted.
func TestT12SizeOfARepository(t *testing.T) {
	_, remove, err := Git{maxClone: 1}.Clone(t.Context(), repository(t, false))
	if err == nil {
		remove()
		t.Fatal("a repository of more than one byte was cloned")
	}
	if !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
}

// What a server makes git say is not kept beyond its end, in which git says what went wrong.
func TestT12LongOutputOfGit(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\necho ' fatal: no such branch' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	_, _, err := Git{}.Clone(t.Context(), "https://example.com/team/policies.git/main")
	if err == nil || !strings.HasSuffix(err.Error(), "fatal: no such branch") || len(err.Error()) > 10_000 {
		t.Errorf("the error has %d bytes", len(fmt.Sprint(err)))
	}
}
