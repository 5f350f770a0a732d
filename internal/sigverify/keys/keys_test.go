package keys

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	mathbig "math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/world"
)

const secretToken = "s3cr3t-t0ken"

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func der(t testing.TB, key crypto.PublicKey) []byte {
	t.Helper()
	b, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pemOf(t testing.TB, key crypto.PublicKey) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der(t, key)}))
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// to returns a transport that sends all requests to a handler. It fails the test if a request goes to any other host than these.
func to(t testing.TB, h http.HandlerFunc, hosts ...string) http.RoundTripper {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	u, _ := url.Parse(server.URL)
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		known := false
		for _, h := range hosts {
			known = known || r.URL.Host == h
		}
		if !known {
			t.Errorf("a request to %s", r.URL)
			return nil, errors.New("unexpected host")
		}
		out := r.Clone(r.Context())
		out.Host, out.URL.Scheme, out.URL.Host = r.URL.Host, u.Scheme, u.Host
		return http.DefaultTransport.RoundTrip(out)
	})
}

func none(t testing.TB) http.RoundTripper { return to(t, func(http.ResponseWriter, *http.Request) {}) }

func answerJSON(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// clean removes the environment variables of clouds from the process.
func clean(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for k, v := range map[string]string{
		"HOME": home, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": filepath.Join(home, "none"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, "none"),
		"AWS_REGION": "", "AWS_CA_BUNDLE": "", "AWS_ENDPOINT_URL_KMS": "", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ROLE_ARN": "",
		"GOOGLE_APPLICATION_CREDENTIALS": "", "GCE_METADATA_HOST": "", "AZURE_CLIENT_ID": "", "AZURE_TENANT_ID": "", "AZURE_CLIENT_SECRET": "",
		"AZURE_FEDERATED_TOKEN_FILE": "", "AZURE_AUTHORITY_HOST": "", "VAULT_ADDR": "", "VAULT_TOKEN": "", "VAULT_NAMESPACE": "", "TRANSIT_SECRET_ENGINE_PATH": "",
	} {
		t.Setenv(k, v)
	}
}

func equal(t *testing.T, got []crypto.PublicKey, want ...crypto.PublicKey) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d keys, want %d", len(got), len(want))
	}
	for i := range got {
		if !got[i].(interface{ Equal(crypto.PublicKey) bool }).Equal(want[i]) {
			t.Errorf("key %d is another one", i)
		}
	}
}

// refuses checks the error for a key, and that it contains no secret.
func refuses(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not hold %q", err, p)
		}
	}
	if strings.Contains(err.Error(), secretToken) {
		t.Errorf("error %q holds a secret", err)
	}
}

func TestPEM(t *testing.T) {
	ec := newKey(t).Public()
	edwards, _, _ := ed25519.GenerateKey(rand.Reader)
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{})
	for name, c := range map[string]struct {
		text string
		want crypto.PublicKey
	}{
		"ECDSA":       {pemOf(t, ec), ec},
		"blanks":      {"\n  " + pemOf(t, ec) + "\n", ec},
		"Ed25519":     {pemOf(t, edwards), edwards},
		"RSA":         {pemOf(t, big.Public()), big.Public()},
		"RSA PKCS #1": {string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&big.PublicKey)})), big.Public()},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second one is cached
				got, err := r.Key(t.Context(), &world.KeyAttestor{PublicKey: c.text}, true)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, []crypto.PublicKey{got}, c.want)
			}
		})
	}
	if n := len(r.parsed.keys); n != 4 {
		t.Errorf("%d keys are remembered, want 4: blanks around a text make no other", n)
	}
	private, _ := x509.MarshalPKCS8PrivateKey(newKey(t))
	short := &rsa.PublicKey{N: new(mathbig.Int).Rsh(big.N, 1024), E: 65537}
	for name, c := range map[string]struct{ text, want string }{
		"not PEM":     {"-----BEGIN PUBLIC KEY-----\n!!!", "failed to load public key from PEM: pem to public key: PEM decoding failed"},
		"not DER":     {"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "failed to load public key from PEM: pem to public key: asn1"},
		"private key": {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), "pem to public key: unknown Public key PEM file type: PRIVATE KEY"},
		"short RSA":   {pemOf(t, short), "an RSA key of 1024 bits is not accepted"},
		"too long":    {"-----BEGIN PUBLIC KEY-----\n" + strings.Repeat("A", maxPEM), "longer than"},
		"nothing":     {" ", "neither a key, a secret nor a key service is named"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Key(t.Context(), &world.KeyAttestor{PublicKey: c.text}, false)
			refuses(t, err, c.want)
			if strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(private)[:20]) {
				t.Error("the error shows a private key")
			}
		})
	}
}

func TestTheParsedKeysAreBounded(t *testing.T) {
	r := New(Options{})
	text := pemOf(t, newKey(t).Public())
	for i := range maxParsed + 50 {
		if _, err := r.Key(t.Context(), &world.KeyAttestor{PublicKey: text + fmt.Sprint(i)}, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.parsed.keys); n > maxParsed {
		t.Errorf("%d keys are remembered", n)
	}
}

func TestReferencesThatAreRefused(t *testing.T) {
	clean(t)
	file := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(file, []byte(pemOf(t, newKey(t).Public())), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KEY", pemOf(t, newKey(t).Public()))
	r := New(Options{HTTP: none(t), Operator: none(t), Secret: func(context.Context, string, string) (map[string][]byte, error) {
		t.Error("a Secret is read")
		return nil, nil
	}})
	for _, c := range []struct {
		ref, want string
		confined  bool
	}{
		{file, "failed to load public key from " + file + ": keys are not read from files of the controller", false},
		{"env://KEY", "failed to load public key from env://KEY: keys are not read from the environment", false},
		{"pkcs11:token=x;pin-value=1", "such keys are not supported", false},
		{"gitlab://group/project", "such keys are not supported", false},
		{"http://example.com/key", "keys are read over https only", false},
		{"ftp://example.com/key", "the key service is unknown", false},
		{"https://example.com/key", "keys of namespaced policies are not read from URLs", true},
		{"https://user:" + secretToken + "@example.com/key?sig=" + secretToken, "failed to load public key from https://example.com/key: a URL may not contain a user", false},
		{"k8s://other/key", "failed to load public key from k8s://other/key: a namespaced policy names the Secret", true},
		{"k8s://other", "a Secret must be named by its namespace and its name", false},
		{"k8s://a/b/c", "a Secret must be named by its namespace and its name", false},
		{"awskms:///../../x", "it does not have the form awskms:///", false},
		{"awskms://a@b/alias/x", "it does not have the form", false},
		{"gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/../../x", "it does not have the form", false},
		{"azurekms://evil.example/key", "it does not have the form", false},
		{"azurekms://x.vault.azure.net.evil.example/key", "it does not have the form", false},
		{"azurekms://x.vault.azure.net/../secrets/x", "it does not have the form", false},
		{"hashivault://../sys/x", "it does not have the form", false},
		{"hashivault://key", "VAULT_ADDR is not set", false},
		{"awskms:///alias/x", "the region is unknown", false},
	} {
		_, err := r.Key(t.Context(), &world.KeyAttestor{KMS: c.ref}, c.confined)
		refuses(t, err, c.want, "failed to load public key from ")
		_, again := r.Key(t.Context(), &world.KeyAttestor{PublicKey: c.ref}, c.confined)
		refuses(t, again, c.want)
	}
}

// T22: key services are asked with the identity of the process, which namespaced policies may not use.
func TestT22KeyServicesOfTheOperator(t *testing.T) {
	clean(t)
	for _, ref := range []string{
		"awskms:///alias/release", "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k", "azurekms://x.vault.azure.net/key", "hashivault://release",
	} {
		_, err := New(Options{HTTP: none(t), Operator: none(t)}).Key(t.Context(), &world.KeyAttestor{KMS: ref}, true)
		if err == nil || !strings.Contains(err.Error(), "--namespacedPoliciesUseOperatorLogin") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	key := newKey(t).Public()
	var asked []string
	r := New(Options{Namespace: "ephor", Secret: func(_ context.Context, namespace, name string) (map[string][]byte, error) {
		asked = append(asked, namespace+"/"+name)
		switch name {
		case "key":
			return map[string][]byte{"cosign.pub": []byte(pemOf(t, key)), "cosign.key": []byte(secretToken)}, nil
		case "empty":
			return map[string][]byte{"cosign.key": []byte(secretToken)}, nil
		}
		return nil, errors.New("secrets \"" + name + "\" not found")
	}})
	for _, k := range []world.KeyAttestor{{SecretNamespace: "team", SecretName: "key"}, {PublicKey: "k8s://team/key"}, {SecretName: "key"}} {
		got, err := r.All(t.Context(), &k, false)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, key)
	}
	if got := strings.Join(asked, " "); got != "team/key team/key ephor/key" {
		t.Errorf("asked for %s", got)
	}
	_, err := r.Key(t.Context(), &world.KeyAttestor{SecretNamespace: "team", SecretName: "none"}, false)
	refuses(t, err, `failed to load public key from k8s://team/none: secrets "none" not found`)
	_, err = r.Key(t.Context(), &world.KeyAttestor{SecretNamespace: "team", SecretName: "empty"}, false)
	refuses(t, err, "failed to load public key from k8s://team/empty: the Secret has no cosign.pub")
	_, err = r.Key(t.Context(), &world.KeyAttestor{SecretName: "key"}, true) // the namespace was not set, so it is not confined
	refuses(t, err, "a Secret must be named by its namespace and its name")
	_, err = New(Options{}).Key(t.Context(), &world.KeyAttestor{SecretNamespace: "team", SecretName: "key"}, false)
	if !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("without a reader of Secrets: %v", err)
	}
}

func TestAWS(t *testing.T) {
	clean(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretToken)
	key := newKey(t).Public()
	var id, status = "", 200
	h := func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var in struct{ KeyId string }
		_ = json.Unmarshal(text, &in)
		id = in.KeyId
		if r.Header.Get("X-Amz-Target") != "TrentService.GetPublicKey" || !strings.Contains(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKID/") {
			t.Errorf("headers: %v", r.Header)
		}
		if status != 200 {
			w.WriteHeader(status)
			answerJSON(w, map[string]any{"__type": "com.amazonaws.kms#AccessDeniedException", "message": "User " + secretToken})
			return
		}
		answerJSON(w, map[string]any{"PublicKey": der(t, key), "KeyUsage": "SIGN_VERIFY"})
	}
	for _, c := range []struct{ ref, host, id, region string }{
		{"awskms:///arn:aws:kms:us-east-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab", "kms.us-east-2.amazonaws.com", "arn:aws:kms:us-east-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab", ""},
		{"awskms:///arn:aws-cn:kms:cn-north-1:111122223333:alias/release", "kms.cn-north-1.amazonaws.com.cn", "arn:aws-cn:kms:cn-north-1:111122223333:alias/release", ""},
		{"awskms:///alias/release", "kms.eu-central-1.amazonaws.com", "alias/release", "eu-central-1"},
		{"awskms://kms.internal:4566/1234abcd-12ab-34cd-56ef-1234567890ab", "kms.internal:4566", "1234abcd-12ab-34cd-56ef-1234567890ab", "eu-central-1"},
	} {
		t.Setenv("AWS_REGION", c.region)
		got, err := New(Options{HTTP: to(t, h, c.host), Operator: none(t)}).All(t.Context(), &world.KeyAttestor{KMS: c.ref}, false)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, key)
		if id != c.id {
			t.Errorf("%s asks for %s", c.ref, id)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL_KMS", "https://vpce-1.kms.eu-central-1.vpce.amazonaws.com")
	if _, err := New(Options{HTTP: to(t, h, "vpce-1.kms.eu-central-1.vpce.amazonaws.com"), Operator: none(t)}).All(t.Context(), &world.KeyAttestor{KMS: "awskms:///alias/release"}, false); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_ENDPOINT_URL_KMS", "")
	status = 400
	_, err := New(Options{HTTP: to(t, h, "kms.eu-central-1.amazonaws.com"), Operator: none(t)}).Key(t.Context(), &world.KeyAttestor{KMS: "awskms:///alias/release"}, false)
	refuses(t, err, "failed to load public key from awskms:///alias/release: AWS KMS answers 400 Bad Request (AccessDeniedException)")
}

func TestAWSWebIdentity(t *testing.T) {
	clean(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secretToken), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::111122223333:role/ephor")
	t.Setenv("AWS_REGION", "eu-central-1")
	key := newKey(t).Public()
	denied := false
	sts := func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if r.Form.Get("WebIdentityToken") != secretToken {
			t.Errorf("the token of the ServiceAccount is not sent")
		}
		if denied {
			w.WriteHeader(403)
			fmt.Fprintf(w, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>%s</Message></Error></ErrorResponse>`, secretToken)
			return
		}
		fmt.Fprint(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
			<AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>x</SecretAccessKey><SessionToken>session</SessionToken><Expiration>2040-01-01T00:00:00Z</Expiration>
			</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`)
	}
	kms := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Security-Token") != "session" {
			t.Errorf("the session is not sent: %v", r.Header)
		}
		answerJSON(w, map[string]any{"PublicKey": der(t, key)})
	}
	options := Options{HTTP: to(t, kms, "kms.eu-central-1.amazonaws.com"), Operator: to(t, sts, "sts.eu-central-1.amazonaws.com")}
	got, err := New(options).All(t.Context(), &world.KeyAttestor{KMS: "awskms:///alias/release"}, false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, key)
	denied = true
	_, err = New(options).All(t.Context(), &world.KeyAttestor{KMS: "awskms:///alias/release"}, false)
	refuses(t, err, "there are no credentials for AWS")
}

func TestGoogle(t *testing.T) {
	clean(t)
	old, current := newKey(t).Public(), newKey(t).Public()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, _ := x509.MarshalPKCS8PrivateKey(private)
	file := filepath.Join(t.TempDir(), "account.json")
	account, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@example.com", "token_uri": "https://oauth2.googleapis.com/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
	})
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	tokens := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answerJSON(w, map[string]any{"access_token": secretToken, "token_type": "Bearer", "expires_in": 3600})
	}
	const key = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
	denied := false
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secretToken {
			t.Errorf("headers: %v", r.Header)
		}
		switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); {
		case denied:
			w.WriteHeader(403)
			answerJSON(w, map[string]any{"error": map[string]any{"code": 403, "message": "denied for " + secretToken, "status": "PERMISSION_DENIED"}})
		case path == key+"/cryptoKeyVersions" && r.URL.Query().Get("filter") == "state=ENABLED":
			answerJSON(w, map[string]any{"cryptoKeyVersions": []map[string]string{
				{"name": key + "/cryptoKeyVersions/2", "state": "ENABLED"}, {"name": key + "/cryptoKeyVersions/10", "state": "ENABLED"},
				{"name": key + "/cryptoKeyVersions/11", "state": "DISABLED"}, {"name": "projects/evil/cryptoKeyVersions/1", "state": "ENABLED"},
			}})
		case path == key+"/cryptoKeyVersions/10/publicKey":
			answerJSON(w, map[string]string{"pem": pemOf(t, current)})
		case path == key+"/cryptoKeyVersions/2/publicKey":
			answerJSON(w, map[string]string{"pem": pemOf(t, old)})
		default:
			w.WriteHeader(404)
		}
	}
	options := Options{HTTP: to(t, h, "cloudkms.googleapis.com"), Operator: to(t, tokens, "oauth2.googleapis.com")}
	r := New(options)
	got, err := r.All(t.Context(), &world.KeyAttestor{KMS: "gcpkms://" + key}, false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, current, old)
	for _, version := range []string{"/cryptoKeyVersions/2", "/versions/2"} {
		if got, err = r.All(t.Context(), &world.KeyAttestor{KMS: "gcpkms://" + key + version}, false); err != nil {
			t.Fatal(err)
		}
		equal(t, got, old)
	}
	_, err = r.Key(t.Context(), &world.KeyAttestor{KMS: "gcpkms://" + key + "/versions/3"}, false)
	refuses(t, err, "Google Cloud KMS answers 404 Not Found")
	denied = true
	_, err = New(options).Key(t.Context(), &world.KeyAttestor{KMS: "gcpkms://" + key}, false)
	refuses(t, err, "Google Cloud KMS answers 403 Forbidden (PERMISSION_DENIED)")
}

func TestAzure(t *testing.T) {
	clean(t)
	ec, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	ring, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	number := base64.RawURLEncoding.EncodeToString
	version := strings.Repeat("ab", 16)
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secretToken || r.URL.Query().Get("api-version") == "" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		switch r.URL.Path {
		case "/keys/release":
			answerJSON(w, map[string]any{"key": map[string]string{"kty": "EC-HSM", "crv": "P-384", "x": number(ec.X.Bytes()), "y": number(ec.Y.Bytes())}, "attributes": map[string]any{"enabled": true}})
		case "/keys/release/" + version:
			answerJSON(w, map[string]any{"key": map[string]string{"kty": "RSA", "n": number(ring.N.Bytes()), "e": "AQAB"}})
		case "/keys/off":
			answerJSON(w, map[string]any{"key": map[string]string{"kty": "RSA", "n": number(ring.N.Bytes()), "e": "AQAB"}, "attributes": map[string]any{"enabled": false}})
		case "/keys/elsewhere":
			answerJSON(w, map[string]any{"key": map[string]string{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}})
		case "/keys/symmetric":
			answerJSON(w, map[string]any{"key": map[string]string{"kty": "oct"}})
		default:
			w.WriteHeader(403)
			answerJSON(w, map[string]any{"error": map[string]any{"code": "Forbidden", "message": secretToken, "innererror": map[string]string{"code": "ForbiddenByRbac"}}})
		}
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("assertion\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	logins := map[string]struct {
		environment map[string]string
		host        string
		check       func(*http.Request) bool
	}{
		"workload identity": {map[string]string{"AZURE_CLIENT_ID": "id", "AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": file}, "login.microsoftonline.com", func(r *http.Request) bool {
			return r.URL.Path == "/tenant/oauth2/v2.0/token" && r.FormValue("client_assertion") == "assertion" && r.FormValue("scope") == "https://vault.azure.net/.default"
		}},
		"client secret": {map[string]string{"AZURE_CLIENT_ID": "id", "AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_SECRET": secretToken, "AZURE_AUTHORITY_HOST": "https://login.chinacloudapi.cn"}, "login.chinacloudapi.cn", func(r *http.Request) bool {
			return r.FormValue("client_secret") == secretToken
		}},
		"managed identity": {map[string]string{"AZURE_CLIENT_ID": "id"}, "169.254.169.254", func(r *http.Request) bool {
			return r.Header.Get("Metadata") == "true" && r.FormValue("client_id") == "id" && r.FormValue("resource") == "https://vault.azure.net"
		}},
	}
	for name, c := range logins {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.environment {
				t.Setenv(k, v)
			}
			login := func(w http.ResponseWriter, r *http.Request) {
				if !c.check(r) {
					t.Errorf("login: %s %v %v", r.URL, r.Form, r.Header)
				}
				answerJSON(w, map[string]string{"access_token": secretToken})
			}
			r := New(Options{HTTP: to(t, h, "team.vault.azure.net"), Operator: to(t, login, c.host)})
			got, err := r.All(t.Context(), &world.KeyAttestor{KMS: "azurekms://team.vault.azure.net/release"}, false)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, ec.Public())
		})
	}
	login := func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, map[string]string{"access_token": secretToken})
	}
	r := New(Options{HTTP: to(t, h, "team.vault.azure.net"), Operator: to(t, login, "169.254.169.254")})
	got, err := r.All(t.Context(), &world.KeyAttestor{KMS: "azurekms://Team.vault.azure.net/release/" + version}, false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, ring.Public())
	for name, want := range map[string]string{
		"off": "the key is disabled", "elsewhere": "the key is not a point on its curve", "symmetric": `keys of type "oct" are not supported`,
		"forbidden": "Azure Key Vault answers 403 Forbidden (ForbiddenByRbac)",
	} {
		_, err := r.All(t.Context(), &world.KeyAttestor{KMS: "azurekms://team.vault.azure.net/" + name}, false)
		refuses(t, err, want)
	}
	failing := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(401)
		answerJSON(w, map[string]string{"error": "invalid_client", "error_description": secretToken})
	}
	_, err = New(Options{HTTP: none(t), Operator: to(t, failing, "169.254.169.254")}).All(t.Context(), &world.KeyAttestor{KMS: "azurekms://team.vault.azure.net/release"}, false)
	refuses(t, err, "the login of Azure answers 401 Unauthorized (invalid_client)")
}

func TestVault(t *testing.T) {
	clean(t)
	first, second, third := newKey(t).Public(), newKey(t).Public(), newKey(t).Public()
	edwards, _, _ := ed25519.GenerateKey(rand.Reader)
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != secretToken || r.Header.Get("X-Vault-Namespace") != "team" {
			w.WriteHeader(403)
			return
		}
		switch r.URL.Path {
		case "/base/v1/signing/keys/release":
			answerJSON(w, map[string]any{"data": map[string]any{"type": "ecdsa-p256", "min_decryption_version": 2, "latest_version": 10, "keys": map[string]any{
				"1": map[string]string{"public_key": pemOf(t, first)}, "2": map[string]string{"public_key": pemOf(t, second)}, "10": map[string]string{"public_key": pemOf(t, third)},
			}}})
		case "/base/v1/signing/keys/edwards":
			answerJSON(w, map[string]any{"data": map[string]any{"type": "ed25519", "keys": map[string]any{"1": map[string]string{"public_key": base64.StdEncoding.EncodeToString(edwards)}}}})
		case "/base/v1/signing/keys/broken":
			answerJSON(w, map[string]any{"data": map[string]any{"type": "ed25519", "keys": map[string]any{"1": map[string]string{"public_key": "AAAA"}}}})
		case "/base/v1/signing/keys/none":
			answerJSON(w, map[string]any{"data": map[string]any{"type": "ed25519"}})
		case "/base/v1/signing/keys/garbage":
			fmt.Fprint(w, secretToken)
		default:
			w.WriteHeader(404)
		}
	}
	t.Setenv("VAULT_ADDR", "https://vault.internal:8200/base")
	t.Setenv("VAULT_TOKEN", secretToken)
	t.Setenv("VAULT_NAMESPACE", "team")
	t.Setenv("TRANSIT_SECRET_ENGINE_PATH", "signing/")
	r := New(Options{HTTP: none(t), Operator: to(t, h, "vault.internal:8200")})
	got, err := r.All(t.Context(), &world.KeyAttestor{KMS: "hashivault://release"}, false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, third, second)
	newest, err := r.Key(t.Context(), &world.KeyAttestor{KMS: "hashivault://release"}, false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, []crypto.PublicKey{newest}, third)
	if got, err = r.All(t.Context(), &world.KeyAttestor{KMS: "hashivault://edwards"}, false); err != nil {
		t.Fatal(err)
	}
	equal(t, got, edwards)
	for name, want := range map[string]string{
		"broken": "Vault returned a key that cannot be read", "none": "there is no enabled version of the key", "gone": "Vault answers 404 Not Found",
		"garbage": "the answer of Vault cannot be read",
	} {
		_, err := r.All(t.Context(), &world.KeyAttestor{KMS: "hashivault://" + name}, false)
		refuses(t, err, "failed to load public key from hashivault://"+name+": "+want)
	}
	t.Setenv("VAULT_TOKEN", "")
	_, err = New(Options{}).All(t.Context(), &world.KeyAttestor{KMS: "hashivault://release"}, false)
	refuses(t, err, "there is no token for Vault")
	home, _ := os.UserHomeDir()
	if err := os.WriteFile(filepath.Join(home, ".vault-token"), []byte(secretToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = New(Options{Operator: to(t, h, "vault.internal:8200")}).All(t.Context(), &world.KeyAttestor{KMS: "hashivault://release"}, false); err != nil {
		t.Error(err)
	}
}

func TestURLs(t *testing.T) {
	key := newKey(t).Public()
	h := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/key":
			fmt.Fprint(w, pemOf(t, key))
		case "/away":
			http.Redirect(w, r, "/key", http.StatusFound)
		case "/long":
			_, _ = w.Write(bytes.Repeat([]byte("A"), maxAnswer+1))
		}
	}
	r := New(Options{HTTP: to(t, h, "keys.example.com"), Operator: none(t)})
	got, err := r.All(t.Context(), &world.KeyAttestor{PublicKey: "https://keys.example.com/key"}, false)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, key)
	for path, want := range map[string]string{
		"away": "keys.example.com answers 302 Found", "long": "keys.example.com answers with more than", "empty": "pem to public key: PEM decoding failed",
	} {
		_, err := r.All(t.Context(), &world.KeyAttestor{PublicKey: "https://keys.example.com/" + path}, false)
		refuses(t, err, "failed to load public key from https://keys.example.com/"+path+": "+want)
	}
}

func TestNamespacedPoliciesAskWhatIsPermitted(t *testing.T) {
	clean(t)
	t.Setenv("VAULT_ADDR", "https://vault.internal")
	t.Setenv("VAULT_TOKEN", secretToken)
	key := newKey(t).Public()
	h := func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, map[string]any{"data": map[string]any{"keys": map[string]any{"1": map[string]string{"public_key": pemOf(t, key)}}}})
	}
	r := New(Options{ConfinedLogin: true, Operator: to(t, h, "vault.internal"), Permit: func(u *url.URL) error { return fmt.Errorf("URL %q is not permitted", u) }})
	if _, err := r.All(t.Context(), &world.KeyAttestor{KMS: "hashivault://release"}, false); err != nil {
		t.Error(err)
	}
	_, err := r.All(t.Context(), &world.KeyAttestor{KMS: "hashivault://release"}, true)
	refuses(t, err, `URL "https://vault.internal/v1/transit/keys/release" is not permitted`)
}

// service is a key service whose answers the test determines.
type service struct {
	calls atomic.Int32
	mu    sync.Mutex
	keys  []crypto.PublicKey
	err   error
}

func (s *service) fetch(context.Context) ([]crypto.PublicKey, error) {
	s.calls.Add(1)
	s.mu.Lock()
	keys, err := s.keys, s.err
	s.mu.Unlock()
	return keys, err
}

func TestAnswersAreRemembered(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	a := newAsked(func() time.Time { return now })
	old, fresh := newKey(t).Public(), newKey(t).Public()
	s := &service{keys: []crypto.PublicKey{old}}
	get := func() ([]crypto.PublicKey, error) { return a.get(t.Context(), question{ref: "x"}, s.fetch) }
	check := func(calls int32, want crypto.PublicKey) {
		t.Helper()
		got, err := get()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, want)
		if n := s.calls.Load(); n != calls {
			t.Fatalf("%d questions, want %d", n, calls)
		}
	}
	check(1, old)
	now = now.Add(holds - time.Second)
	check(1, old)
	s.keys, now = []crypto.PublicKey{fresh}, now.Add(time.Second)
	check(2, fresh) // the key was rotated
	s.err, now = errors.New("unreachable"), now.Add(holds)
	check(3, fresh) // the last answer is used
	check(3, fresh) // and no request is sent during the pause
	now = now.Add(retryAfter)
	check(4, fresh)
	s.err, now = &fetch.GoneError{Err: errors.New("deleted")}, now.Add(retryAfter)
	if _, err := get(); err == nil {
		t.Error("a deleted key counts")
	}
	if _, err := get(); err == nil || s.calls.Load() != 5 {
		t.Errorf("%d questions about a deleted key", s.calls.Load())
	}
	s.err, now = nil, now.Add(retryAfter)
	check(6, fresh)
}

func FuzzKey(f *testing.F) {
	f.Add(pemOf(f, newKey(f).Public()))
	f.Add("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----")
	f.Add("https://a:b@c/d?e#f")
	f.Add("awskms://h/alias/x")
	r := New(Options{})
	f.Fuzz(func(_ *testing.T, text string) {
		if strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN") {
			_, _ = r.Key(context.Background(), &world.KeyAttestor{PublicKey: text}, true)
		}
		_ = shown(text)
		_ = codeOf([]byte(text))
	})
}
