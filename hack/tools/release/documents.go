package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// documents returns the completions for shells and the manual pages, which the program prints itself.
func (r *release) documents() ([]file, error) {
	var files []file
	for _, shell := range []struct{ name, file string }{
		{"bash", "completions/ephor.bash"}, {"zsh", "completions/_ephor"}, {"fish", "completions/ephor.fish"}, {"powershell", "completions/ephor.ps1"},
	} {
		out, err := output(r.ephor, "completion", shell.name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{shell.file, 0o644, out})
	}
	dir, err := os.MkdirTemp("", "ephor-docs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if _, err := output(r.ephor, "docs", "--output", dir, "--autogenTag=false"); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("%s docs wrote no pages", r.ephor)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(page), ".md"), "_", "-")
		files = append(files, file{"man/" + name + ".1", 0o644, r.manual(name, string(text))})
	}
	return files, nil
}

// manual returns a page of the program's reference in the form for man.
func (r *release) manual(name, markdown string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %q \"1\" %q %q \"\"\n\n", strings.ToUpper(name), r.created.Format("January 2006"), "ephor "+r.version)
	inCode := false
	for i, line := range strings.Split(markdown, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inCode = !inCode
		case inCode:
		case i == 0: // the name of the command; the summary follows
			line = "# NAME"
		case strings.HasPrefix(line, "### SEE ALSO"):
			line = "# SEE ALSO"
		case strings.HasPrefix(line, "### "):
			line = "# " + strings.ToUpper(line[4:])
		case strings.HasPrefix(line, "* ["):
			line = reference(line)
		}
		b.WriteString(line + "\n")
	}
	return md2man.Render([]byte(b.String()))
}

// reference converts a link to another page to the form of manuals: "* [ephor apply](ephor_apply.md) - …" becomes "*
// **ephor-apply**(1) - …".
func reference(line string) string {
	name, rest, ok := strings.Cut(strings.TrimPrefix(line, "* ["), "](")
	if !ok {
		return line
	}
	_, rest, _ = strings.Cut(rest, ")")
	return "* **" + strings.ReplaceAll(name, " ", "-") + "**(1)" + rest
}

// output runs a program and returns its output.
func output(program string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...) //nolint:gosec // the program is the one that is released
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return out, nil
}
