package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/diag"
)

// Options define where to read.
type Options struct {
	// Stdin is read for the path `-`; nil if standard input is a terminal.
	Stdin io.Reader
	// Recursive includes everything below a directory, otherwise only the files directly in it. Names that begin with a
	// dot are always skipped.
	Recursive bool
	// Numbers defines how numbers are represented.
	Numbers Numbers
	// Git, if set, makes a URL refer to a git repository; otherwise it refers to a file.
	Git *Git
	// Context ends slow operations: reading from URLs. Nil means a context that never ends.
	Context context.Context
}

// Input is one file (or standard input) to read.
type Input struct {
	Name string
	// Named: the author gave this path; files that were only found in a directory may turn out not to be manifests.
	Named bool
	// Repository: the file was found in a git repository, which may contain all kinds of files.
	Repository bool

	stdin *onceReader
	text  string // content that was already read
	read  bool
}

// onceReader holds standard input, which can be read only once, for inputs that are opened several times.
type onceReader struct {
	from io.Reader
	once sync.Once
	text []byte
	err  error
}

func (r *onceReader) all() ([]byte, error) {
	r.once.Do(func() { r.text, r.err = readAll(r.from, maxFile) })
	return r.text, r.err
}

// Read returns the whole content.
func (in Input) Read() (string, error) {
	if in.read {
		return in.text, nil
	}
	var b []byte
	var err error
	if in.stdin != nil {
		b, err = in.stdin.all()
	} else {
		b, err = readFile(in.Name, in.Named)
	}
	if err != nil {
		return "", err
	}
	return string(b), nil
}

// Find lists the files to which the paths refer, in the given order, each once: files, directories, globs, and `-` for
// standard input. A path without files is an error; the others are listed nevertheless.
func Find(paths []string, o Options) ([]Input, diag.List) {
	f := finder{options: o, seen: map[string]bool{}}
	for _, p := range paths {
		f.add(p)
	}
	return f.inputs, f.diags
}

type finder struct {
	options Options
	inputs  []Input
	diags   diag.List
	seen    map[string]bool
}

func (f *finder) fail(path, hint, format string, args ...any) {
	f.diags.Add(diag.Diagnostic{Pos: diag.Position{File: path}, Summary: fmt.Sprintf(format, args...), Hint: hint})
}

func (f *finder) add(path string) {
	switch {
	case path == "-":
		if f.options.Stdin == nil {
			f.fail(path, "pipe the manifests into the command", "there is nothing on standard input")
			return
		}
		if !f.seen[path] {
			f.seen[path] = true
			f.inputs = append(f.inputs, Input{Name: "<stdin>", Named: true, stdin: &onceReader{from: f.options.Stdin}})
		}
		return
	case IsArtifact(path):
		f.artifact(path)
		return
	case IsURL(path):
		f.url(path)
		return
	case path == "":
		f.fail(`""`, "leave it out", "a path is empty")
		return
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		f.directory(path)
	case err == nil:
		f.file(path, true)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?["):
		f.glob(path)
	default:
		f.fail(path, missingHint(err), "%s", reason(err))
	}
}

// glob resolves a pattern that the shell did not (because it was quoted, or follows a comma).
func (f *finder) glob(pattern string) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		f.fail(pattern, "close the bracket, or quote it with a backslash", "this is not a valid glob pattern")
		return
	}
	if !strings.HasPrefix(filepath.Base(pattern), ".") { // as in a shell, * does not match hidden names
		matches = slices.DeleteFunc(matches, func(m string) bool { return strings.HasPrefix(filepath.Base(m), ".") })
	}
	if len(matches) == 0 {
		f.fail(pattern, "check the pattern and the directory it is read from", "no file matches")
	}
	sort.Strings(matches)
	for _, m := range matches {
		info, err := os.Stat(m)
		switch {
		case err != nil:
			f.fail(m, missingHint(err), "%s", reason(err))
		case info.IsDir():
			f.directory(m)
		default:
			f.file(m, true)
		}
	}
}

func (f *finder) directory(dir string) {
	before, deeper := len(f.inputs), false
	err := Walk(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			f.fail(path, missingHint(err), "%s", reason(err))
			return nil
		}
		hidden := path != dir && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() {
			if hidden || path != dir && !f.options.Recursive {
				deeper = deeper || !hidden
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case hidden:
		case isManifest(path):
			f.file(path, false)
		case f.options.Recursive && d.Type()&fs.ModeSymlink != 0 && isDirectory(path):
			f.diags.Add(diag.Diagnostic{
				Severity: diag.Warning, Pos: diag.Position{File: path}, Summary: "this link to a directory is not followed", Hint: "name it as well, if its files are meant",
			})
		}
		return nil
	})
	if err != nil {
		f.fail(dir, missingHint(err), "%s", reason(err))
	}
	if err == nil && len(f.inputs) == before && !f.diags.HasErrors() {
		hint := "give a directory that holds .yaml, .yml or .json files"
		if deeper {
			hint = "the directories below it are not read: name them, as in " + filepath.Join(dir, "*", "*.yaml")
		}
		f.fail(dir, hint, "no manifests in this directory")
	}
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Walk is filepath.WalkDir, also for a path that is a link to a directory. It does not follow links below it.
func Walk(path string, visit fs.WalkDirFunc) error {
	root := path
	if isDirectory(path) {
		root += string(filepath.Separator) // of such a path, the file system follows the link
	}
	return filepath.WalkDir(root, func(found string, d fs.DirEntry, err error) error {
		if found == root {
			found = path
		}
		return visit(found, d, err)
	})
}

// IsYAML reports whether the name is that of a YAML file. Extensions are compared without regard to case.
func IsYAML(path string) bool { return hasExtension(path, ".yaml", ".yml") }

func isJSON(path string) bool { return hasExtension(path, ".json") }

func isManifest(path string) bool { return IsYAML(path) || isJSON(path) }

func hasExtension(path string, known ...string) bool {
	return slices.Contains(known, strings.ToLower(filepath.Ext(path)))
}

func (f *finder) file(path string, named bool) {
	path = filepath.Clean(path)
	if f.seen[path] {
		return
	}
	f.seen[path] = true
	f.inputs = append(f.inputs, Input{Name: path, Named: named})
}

// reason returns the error without the path, which the position already contains.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func missingHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "check the path"
	case errors.Is(err, fs.ErrPermission):
		return "make it readable for this user"
	}
	return ""
}
