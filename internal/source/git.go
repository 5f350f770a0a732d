package source

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Git says how URLs of git repositories are read. The program git does it, so that its configuration (proxies,
// certificates) holds.
type Git struct {
	// Branch to read; empty to read it from the URL.
	Branch string
	// Username and Password are used when both are set.
	Username, Password string
	// Progress gets what git tells of its progress; nil for nowhere.
	Progress io.Writer
}

// IsURL reports whether the path is an http or https URL.
func IsURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// Repository is what a URL says: the first two elements of its path are owner and repository. What follows is the branch
// (main without it), or, where the branch is given elsewhere, a folder of the repository.
type Repository struct{ URL, Branch, Folder string }

// Parse reads a URL.
func (g Git) Parse(text string) (Repository, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Repository{}, err
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if u.Host == "" || len(parts) < 2 || parts[0] == "" || parts[1] == "" {
		return Repository{}, errors.New("this is not the URL of a git repository: write https://host/owner/repository")
	}
	r := Repository{URL: (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host, Path: "/" + parts[0] + "/" + parts[1]}).String()}
	rest := strings.Join(parts[2:], "/")
	if r.Branch = g.Branch; r.Branch != "" {
		r.Folder = rest
	} else if r.Branch = rest; rest == "" {
		r.Branch = "main"
	}
	if strings.HasPrefix(r.Branch, "-") || r.Folder != "" && !filepath.IsLocal(r.Folder) {
		return Repository{}, errors.New("this names no branch and no folder of a repository")
	}
	return r, nil
}

// Clone fetches the newest state of the branch that the URL means and returns the folder that it means. The caller calls
// remove when the files are no longer needed.
func (g Git) Clone(ctx context.Context, text string) (folder string, remove func(), err error) {
	r, err := g.Parse(text)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "ephor-git-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	cmd := exec.CommandContext(ctx, "git", "clone", "--progress", "--depth", "1", "--single-branch", "--branch", r.Branch, "--", r.URL, dir)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	if g.Username != "" && g.Password != "" {
		// In the environment and not among the arguments, which every process of the machine can read.
		token := base64.StdEncoding.EncodeToString([]byte(g.Username + ":" + g.Password))
		cmd.Env = append(cmd.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Basic "+token)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if g.Progress != nil {
		cmd.Stderr = io.MultiWriter(&said, g.Progress)
	}
	if err := cmd.Run(); err != nil {
		remove()
		if errors.Is(err, exec.ErrNotFound) {
			return "", nil, errors.New("reading git repositories needs the program git, which is not installed")
		}
		return "", nil, fmt.Errorf("failed to clone the branch %s of %s: %s", r.Branch, r.URL, lastLine(said.String(), err))
	}
	folder = filepath.Join(dir, filepath.FromSlash(r.Folder))
	if _, err := os.Stat(folder); err != nil {
		remove()
		return "", nil, fmt.Errorf("the branch %s of %s has no folder %s", r.Branch, r.URL, r.Folder)
	}
	return folder, remove, nil
}

// lastLine is the last line of what a program said, which is where git says what went wrong.
func lastLine(said string, err error) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return err.Error()
}
