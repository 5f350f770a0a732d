package ephor_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// otherHomes finds addresses that look like those of this project, on hosts where anybody can own a name.
var otherHomes = regexp.MustCompile(`(?i)((?:github\.com|raw\.githubusercontent\.com|gitlab\.com|ghcr\.io|docker\.io|quay\.io|registry\.k8s\.io|users\.noreply\.github\.com)/[a-z0-9._-]*ephor[a-z0-9._/-]*|[a-z0-9._-]+/ephor(?:/[a-z]+)?@(?:main|v[0-9])|\bephor-dev\b|@ephor\.(?:dev|io|com|org)|https?://[a-z.]*ephor\.(?:dev|io|com|org))`)

// signer is a name in the certificates of signed test images. Nothing is fetched from it.
const signer = "github.com/ephor-test/"

// ownImport matches a line that imports a package of ours, such as most lines with our name.
var ownImport = regexp.MustCompile(`^\s*(?:\w+ )?"[a-z0-9.]+/[^"]*ephor/[^"]*"$`)

// addresses returns what otherHomes finds in the lines with our name.
func addresses(text string) (found []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); strings.Contains(strings.ToLower(line), "ephor") && !ownImport.MatchString(line) {
			found = append(found, otherHomes.FindAllString(line, -1)...)
		}
	}
	return found
}

// Nothing points at a home of the project other than that of home.env.
func TestOneHome(t *testing.T) {
	text, err := os.ReadFile("home.env")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		own[key] = value
	}
	names, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("needs git: ", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if strings.HasPrefix(name, "hack/home/") || name == "home_test.go" { // they hold examples
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for _, found := range addresses(string(text)) {
			if strings.HasPrefix(found, own["EPHOR_HOME"]) || strings.HasPrefix(found, own["EPHOR_REGISTRY"]) || strings.HasSuffix(own["EPHOR_CONTACT"], found) || strings.HasPrefix(found, signer) {
				continue
			}
			t.Errorf("%s names %q: the home of this project is %s (home.env)", name, found, own["EPHOR_HOME"])
		}
	}
}

func TestOtherHomesAreFound(t *testing.T) {
	for _, text := range []string{"github.com/Ephor-Dev/ephor", "ghcr.io/ephor", "ephor-dev/x", "uses: someone/ephor/action@main", "https://get.ephor.dev", "security@ephor.io"} {
		if len(addresses(text)) == 0 {
			t.Errorf("%q is not found", text)
		}
	}
	for _, text := range []string{"ephor.dev/pause", "https://example.com/ephor", "registry.example.com/ephor:1"} {
		if len(addresses(text)) > 0 {
			t.Errorf("%q is found", text)
		}
	}
}
