package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Git defines how URLs of git repositories are read. The program git does it, so that its configuration (proxies, certificates) applies.
type Git struct {
	// Branch is the branch to read; empty to take it from the URL.
	Branch string
	// Username and Password are used if both are set.
	Username, Password string
	// Progress receives git's progress; nil for none.
	Progress io.Writer

	maxClone int64 // bytes; 0 for maxClone
}

const (
	// maxClone bounds the disk space of a repository while it is read, in bytes.
	maxClone = 2 << 30
	// cloneTimeout bounds the time of a clone.
	cloneTimeout = 10 * time.Minute
	// measureEvery is the interval at which the size of a clone is checked.
	measureEvery = 200 * time.Millisecond
)

// IsURL reports whether the path is an http or https URL.
func IsURL(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://")
}

// Repository is the content of a URL: the first two elements of its path are owner and repository. The rest is the branch (main if there
// is none), or, if the branch is given elsewhere, a folder in the repository.
type Repository struct{ URL, Branch, Folder string }

// Parse parses a URL.
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
	if isFile(u, parts[2:], g.Branch != "") {
		return Repository{}, fmt.Errorf("this is the URL of a file, and policies are read from git repositories: download the file and name it, or write %s/BRANCH", strings.Replace(r.URL, "//raw.githubusercontent.com/", "//github.com/", 1))
	}
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

// isFile reports whether a URL refers to one file: by the hosts or paths at which git servers show files, or by the extension of an
// apparent branch.
func isFile(u *url.URL, rest []string, branch bool) bool {
	if strings.HasPrefix(u.Host, "raw.") {
		return true
	}
	if len(rest) < 2 {
		return !branch && len(rest) == 1 && isManifest(rest[0])
	}
	at := rest[0]
	if at == "-" {
		at = rest[1] // GitLab
	}
	return at == "blob" || at == "raw" || !branch && isManifest(rest[len(rest)-1])
}

// Clone is the fetched content of a repository.
type Clone struct {
	// Folder is the folder that the URL selects. Links below it lead to files of the repository.
	Folder string
	// Removed are the links that led elsewhere, relative to Folder, with the reason: they were deleted.
	Removed []Removed

	root string
}

// Removed is a file that is not read.
type Removed struct {
	Name string
	Err  error
}

// Clone fetches the newest state of the branch that the URL selects. The caller calls remove when the files are no longer needed.
func (g Git) Clone(ctx context.Context, text string) (c Clone, remove func(), err error) {
	r, err := g.Parse(text)
	if err == nil {
		g, r.URL, err = g.without(r.URL)
	}
	if err != nil {
		return Clone{}, nil, err
	}
	dir, err := os.MkdirTemp("", "ephor-git-")
	if err != nil {
		return Clone{}, nil, err
	}
	made := dir
	drop := func() { os.RemoveAll(made) }
	defer func() {
		if err != nil {
			drop()
		}
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Clone{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cloneTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "clone", "--progress", "--depth", "1", "--single-branch", "--branch", r.Branch, "--", r.URL, dir)
	cmd.WaitDelay = time.Second // in case children of git keep its output open
	if cmd.Env, err = g.environment(r.URL); err != nil {
		return Clone{}, nil, err
	}
	var said ending
	cmd.Stderr = &said
	if g.Progress != nil {
		cmd.Stderr = io.MultiWriter(&said, g.Progress)
	}
	most := cmp.Or(g.maxClone, maxClone)
	large := measure(ctx, cancel, dir, most)
	err = cmd.Run()
	cancel()
	if <-large || err == nil && size(dir) > most {
		return Clone{}, nil, fmt.Errorf("the branch %s of %s is larger than %d MiB", r.Branch, r.URL, most>>20)
	}
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return Clone{}, nil, errors.New("reading git repositories needs the program git, which is not installed")
		}
		return Clone{}, nil, fmt.Errorf("failed to clone the branch %s of %s: %s", r.Branch, r.URL, lastLine(string(said.text), err))
	}
	c = Clone{root: dir, Folder: filepath.Join(dir, filepath.FromSlash(r.Folder))}
	info, err := os.Stat(c.Folder)
	if err != nil {
		return Clone{}, nil, fmt.Errorf("the branch %s of %s has no folder %s", r.Branch, r.URL, r.Folder)
	}
	if c.Folder, err = c.inside(c.Folder); err != nil || !info.IsDir() {
		return Clone{}, nil, fmt.Errorf("%s is not a folder of the branch %s of %s", r.Folder, r.Branch, r.URL)
	}
	if err = c.clean(); err != nil {
		return Clone{}, nil, err
	}
	return c, drop, nil
}

// without removes user name and password from the URL: git would also send them to the target of a redirect, and errors contain the URL.
func (g Git) without(text string) (Git, string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return g, "", err
	}
	if password, has := u.User.Password(); has {
		if g.Username == "" || g.Password == "" {
			g.Username, g.Password = u.User.Username(), password
		}
		u.User = nil
	}
	return g, u.String(), nil
}

// environment returns git's environment: that of this process without the repository of a hook. git requests the user name and password only
// for the host of the URL; a header would also be sent to the target of a redirect. They are in the environment and not among the arguments,
// which every process can read.
func (g Git) environment(text string) ([]string, error) {
	env := append(slices.DeleteFunc(os.Environ(), ofHook), "GIT_TERMINAL_PROMPT=0")
	if g.Username == "" || g.Password == "" {
		return env, nil
	}
	if strings.ContainsAny(g.Username+g.Password, "\n\r\x00") {
		return nil, errors.New("a user name or password for git has no line breaks")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	host := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	env = append(env, "EPHOR_GIT_USERNAME="+g.Username, "EPHOR_GIT_PASSWORD="+g.Password)
	n, _ := strconv.Atoi(os.Getenv("GIT_CONFIG_COUNT")) // the settings that are in the environment stay in force
	n = max(n, 0)
	for _, setting := range [][2]string{
		{"credential.helper", ""}, // the machine's credential helpers are not used, and store nothing
		{"credential." + host + ".helper", `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$EPHOR_GIT_USERNAME" "$EPHOR_GIT_PASSWORD"; }; f`},
	} {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, setting[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, setting[1]))
		n++
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n)), nil
}

// hookVariables name the repository of a hook of git to the programs that it runs. A clone would write its index and its files there.
var hookVariables = []string{
	"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_NAMESPACE",
}

func ofHook(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(hookVariables, name)
}

// clean removes links that do not lead to files of the repository. git creates no other irregular files.
func (c *Clone) clean() error {
	return filepath.WalkDir(c.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == filepath.Join(c.root, ".git"):
			return fs.SkipDir
		case d.Type()&fs.ModeSymlink == 0:
			return nil
		}
		_, away := c.inside(path)
		if away == nil {
			return nil
		}
		name, err := filepath.Rel(c.Folder, path)
		if err == nil && filepath.IsLocal(name) {
			c.Removed = append(c.Removed, Removed{name, away})
		}
		return os.Remove(path)
	})
}

// inside returns the path without links. It is an error if it leads out of the repository, or into git's own folder.
func (c *Clone) inside(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	within, err := filepath.Rel(c.root, real)
	if err != nil || !filepath.IsLocal(within) {
		return "", errors.New("this path leads out of the repository")
	}
	if first, _, _ := strings.Cut(filepath.ToSlash(within), "/"); strings.EqualFold(first, ".git") {
		return "", errors.New("this is git's own folder")
	}
	return real, nil
}

// CheckInside returns an error if the path leads out of the repository, or into git's own folder. A path that does not exist is inside if its
// text is.
func (c *Clone) CheckInside(path string) error {
	_, err := c.inside(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	within, err := filepath.Rel(c.root, filepath.Clean(path))
	if err != nil || !filepath.IsLocal(within) {
		return errors.New("this path leads out of the repository")
	}
	return nil
}

// measure ends a clone that takes more than most bytes on the disk. The returned channel delivers, once ctx is done, whether it did.
func measure(ctx context.Context, cancel func(), dir string, most int64) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				out <- false
				return
			case <-time.After(measureEvery):
			}
			if size(dir) > most {
				cancel()
				out <- true
				return
			}
		}
	}()
	return out
}

// size returns the size of the files below a folder, in bytes. It ignores files that are created or deleted meanwhile.
func size(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// ending keeps the end of what is written to it: a server can make git say as much as it likes.
type ending struct{ text []byte }

const maxEnding = 4 << 10

// Write implements io.Writer.
func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p[max(len(p)-maxEnding, 0):]...)
	e.text = append(e.text[:0], e.text[max(len(e.text)-maxEnding, 0):]...)
	return len(p), nil
}

// lastLine returns the last line of a program's output, in which git says what went wrong.
func lastLine(said string, err error) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return err.Error()
}
