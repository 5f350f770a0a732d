package jmespath

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/imageref"
)

// Replacing step by step gives the same result as the library's own replacing.
func TestRegexReplaceLikeTheLibrary(t *testing.T) {
	for _, re := range []string{"a", "a*", "^", "$", "", "(a)(b)?", "[^a]+", `\b`, "(?P<x>a+)b", "é", "(?m)^a"} {
		for _, s := range []string{"", "a", "baac", "aab ab", "éa\nab", "xyz"} {
			for _, replacement := range []string{"", "-", "$1", "${1}x", "$x", "$$", "<$0>"} {
				input := map[string]any{"re": re, "s": s, "r": replacement}
				compiled := regexp.MustCompile(re)
				for function, want := range map[string]string{
					"regex_replace_all":         compiled.ReplaceAllString(s, replacement),
					"regex_replace_all_literal": compiled.ReplaceAllLiteralString(s, replacement),
				} {
					got, err := MustCompile(function+"(re, s, r)").Search(nil, input)
					if err != nil || got != want {
						t.Errorf("%s(%q, %q, %q) is %q, %v, want %q", function, re, s, replacement, got, err, want)
					}
				}
			}
		}
	}
}

func TestRegexCacheIsBounded(t *testing.T) {
	e := MustCompile("regex_match(re, 'x')")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2 * maxRegexes {
				if _, err := e.Search(nil, map[string]any{"re": fmt.Sprintf("x{%d}y{%d}", g, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(regexes.byText); n == 0 || n > maxRegexes {
		t.Errorf("the cache holds %d expressions", n)
	}
}

func TestRandom(t *testing.T) {
	for _, pattern := range []string{"[a-z]{5}", "[0-9a-z]{8}", "a|bc|d", "(x[yz])*", "x+y?", "[^a]", ".", "^ab$", "(?i)abc", "\\d{2,4}", "\\w{3,}", "[é-ü]", "a{0}", "(a|b){3}-[0-9]"} {
		for range 20 {
			env := exampleEnv()
			env.World.Rand = seeded{}
			got, err := MustCompile("random(@)").Search(env, pattern)
			if err != nil || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(got.(string)) {
				t.Errorf("random(%q) is %q, %v", pattern, got, err)
			}
		}
	}
	for pattern, want := range map[string]string{"(": "error parsing regexp: missing closing ): `(`", "[^\\x00-\\x{10FFFF}]": "JMESPath function 'random': no text matches the pattern"} {
		if got, err := MustCompile("random(@)").Search(exampleEnv(), pattern); err == nil || err.Error() != want {
			t.Errorf("random(%q) is %q, %v", pattern, got, err)
		}
	}
}

type seeded struct{}

func (seeded) Intn(n int) int {
	i, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err)
	}
	return int(i.Int64())
}

func TestImageNormalize(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]string{
		"nginx": "docker.io/nginx:latest", "library/nginx": "docker.io/library/nginx:latest", "nginx:1.2": "docker.io/nginx:1.2", "nginx@" + digest: "docker.io/nginx@" + digest, "nginx:1@" + digest: "docker.io/nginx:1@" + digest,
		"localhost/a": "localhost/a:latest", "localhost:5000/a/b": "localhost:5000/a/b:latest", "registry.k8s.io/pause:3.9": "registry.k8s.io/pause:3.9", "UPPER/x": "UPPER/x:latest", "[::1]:5000/x": "[::1]:5000/x:latest",
		"a__b/c-d.e": "docker.io/a__b/c-d.e:latest",
	} {
		if got, err := normalizeImage(&Env{}, image); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", image, got, err, want)
		}
	}
	for image, want := range map[string]error{
		"": imageref.ErrFormat, "Nginx": imageref.ErrUppercase, "nginx:": imageref.ErrFormat, "nginx:" + strings.Repeat("a", 129): imageref.ErrFormat, "a//b": imageref.ErrFormat, "nginx@sha256:abc": imageref.ErrFormat, "-a": imageref.ErrFormat, "a b": imageref.ErrFormat, "/a": imageref.ErrFormat,
		strings.Repeat("a/", 140) + "b": imageref.ErrLongName,
	} {
		if got, err := normalizeImage(&Env{}, image); err == nil || !strings.HasSuffix(err.Error(), want.Error()) || !strings.HasPrefix(err.Error(), "bad image: docker.io/") {
			t.Errorf("%s is %s, %v", image, got, err)
		}
	}
}

func TestX509Decode(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "a", Organization: []string{"system:masters"}}, NotAfter: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), DNSNames: []string{"a.example"}}
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &rsaKey.PublicKey, rsaKey)
	rsaPEM := encode("CERTIFICATE", certificate, err)
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, &ecKey.PublicKey, ecKey)
	ecPEM := encode("CERTIFICATE", certificate, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: template.Subject, DNSNames: template.DNSNames}, rsaKey)
	requestPEM := encode("CERTIFICATE REQUEST", request, err)
	for _, c := range []struct{ input, expression, want string }{
		{rsaPEM, "x509_decode(@).Subject.CommonName", "a"},
		{rsaPEM, "x509_decode(@).Subject.Organization[0]", "system:masters"},
		{rsaPEM, "x509_decode(@).DNSNames[0]", "a.example"},
		{rsaPEM, "x509_decode(@).NotAfter", "2030-01-02T03:04:05Z"},
		{rsaPEM, "x509_decode(@).SerialNumber", "7"},
		{rsaPEM, "x509_decode(@).PublicKey.N", rsaKey.N.String()},
		{requestPEM, "x509_decode(@).Subject.CommonName", "a"},
		{requestPEM, "x509_decode(@).PublicKey.E", "65537"},
		{ecPEM, "x509_decode(@)", "certificate should use rsa algorithm"},
		{encode("PRIVATE KEY", []byte("x"), nil), "x509_decode(@)", "PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST"},
		{"no certificate", "x509_decode(@)", "failed to decode PEM block"},
		{encode("CERTIFICATE", []byte("x"), nil), "x509_decode(@)", "x509: malformed certificate"},
	} {
		got, err := MustCompile(c.expression).Search(nil, c.input)
		if text, ok := textOf(got); err != nil && err.Error() != c.want || err == nil && (!ok || text != c.want) {
			t.Errorf("%s is %v, %v, want %s", c.expression, got, err, c.want)
		}
	}
}
