package imageverify

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/world"
)

// Mistakes are found if a text cannot be read; texts that are not known yet are ignored.
func TestMistakes(t *testing.T) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&secret.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	key, certificate := text("PUBLIC KEY", der), text("CERTIFICATE", cert)
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		text("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&old.PublicKey)): "", text("RSA PUBLIC KEY", der): "a public key cannot be read",
		key: "", key + key: "", "": "", "{{ key }}": "", "k8s://ns/name": "", "awskms:///alias/x": "", "https://example.com/key": "",
		key + text("PUBLIC KEY", der[1:]): "a public key cannot be read", strings.Replace(key, "MF", "!!", 1): "a public key is not in PEM",
		"cosign.pub": "neither a public key in PEM", "env://KEY": "neither a public key in PEM", "http://example.com/key": "not read from http", "gitlab://1": "not read from gitlab",
	} {
		if got := KeyMistake(given); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
	for given, want := range map[string]string{certificate: "", certificate + certificate: "", base64.StdEncoding.EncodeToString([]byte(certificate)): "", "": "", "{{ c }}": "",
		key: "a certificate cannot be read", "LS0t": "neither a certificate in PEM", "ca.crt": "neither a certificate in PEM"} {
		if got := CertificateMistake(given); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
	for given, want := range map[string]string{key: "", key + key: "", "": "", "{{ k }}": "", "rekor.pub": "no public key in PEM", certificate: "a public key cannot be read"} {
		if got := LogKeyMistake(given); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
	for name, c := range map[string]struct {
		given world.KeylessAttestor
		want  string
	}{
		"a subject and an issuer":   {world.KeylessAttestor{Subject: "*", Issuer: "*"}, ""},
		"a subject":                 {world.KeylessAttestor{Subject: "*"}, "no issuer is required"},
		"an issuer":                 {world.KeylessAttestor{IssuerRegExp: "^https://.*$"}, "no subject is required"},
		"a subject, and own roots":  {world.KeylessAttestor{Subject: "*", Roots: certificate}, ""},
		"a variable":                {world.KeylessAttestor{SubjectRegExp: "{{ ( }}", Issuer: "i"}, ""},
		"extensions":                {world.KeylessAttestor{Extensions: map[string]string{"githubWorkflowRepository": "b", "1.3.6.1.4.1.57264.1.12": "c"}}, ""},
		"an extension that is none": {world.KeylessAttestor{Extensions: map[string]string{"a": "b"}}, "invalid certificate extension a"},
		"nothing":                   {world.KeylessAttestor{Roots: certificate}, "neither a subject nor an issuer"},
		"nothing in another":        {world.KeylessAttestor{Subject: "a", Issuer: "i", Others: []world.Identity{{}}}, "neither a subject nor an issuer"},
		"no regular expression":     {world.KeylessAttestor{SubjectRegExp: "(", Issuer: "i"}, "no certificate satisfies it"},
		// T26: an expression without anchors matches longer names.
		"anchored":               {world.KeylessAttestor{SubjectRegExp: `^https://github\.com/team/.+`, IssuerRegExp: "^(https://a|https://b)$"}, ""},
		"anchored in each part":  {world.KeylessAttestor{SubjectRegExp: `^a$|^b$`, Issuer: "i"}, ""},
		"anything, said":         {world.KeylessAttestor{SubjectRegExp: `.*@example\.com$`, IssuerRegExp: `\Ahttps://a\z`}, ""},
		"no anchor at the end":   {world.KeylessAttestor{SubjectRegExp: `.*@example\.com`, Issuer: "i"}, "also matches a part of a longer name"},
		"no anchor at the begin": {world.KeylessAttestor{SubjectRegExp: "a", IssuerRegExp: `https://github\.com.*`}, `the expression https://github\.com.* also matches`},
		"no anchor in a part":    {world.KeylessAttestor{SubjectRegExp: "^a$|b$", Issuer: "i"}, "also matches a part"},
		"anchors of lines":       {world.KeylessAttestor{SubjectRegExp: "(?m)^a$", Issuer: "i"}, "also matches a part"},
		"an anchor of others":    {world.KeylessAttestor{Subject: "a", Issuer: "i", Others: []world.Identity{{Issuer: "i", SubjectRegExp: "^b"}}}, "also matches a part"},
	} {
		if got := strings.Join(IdentityMistakes(&c.given), "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
