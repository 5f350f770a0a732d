package keys

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/fetch"
)

const azureService = "Azure Key Vault"

var azureKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9-]+\.(vault\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net|managedhsm\.azure\.net))/([0-9A-Za-z-]{1,127})(?:/([0-9a-f]{32}))?$`)
})

// azure reads a key of Azure Key Vault: azurekms://⟨vault⟩.vault.azure.net/⟨key⟩[/⟨version⟩]; without a version, it is the current one. It
// logs in with workload identity (AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID), with AZURE_CLIENT_SECRET instead of the
// file, or with the managed identity of the machine.
func (r *Resolver) azure(ctx context.Context, ref string, transport http.RoundTripper) ([]crypto.PublicKey, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(ref, "azurekms://"), "/")
	parts := azureKey().FindStringSubmatch(strings.ToLower(host) + "/" + path) // the token is sent only to hosts of Azure
	if parts == nil {
		return nil, errors.New("it does not have the form azurekms://⟨vault⟩.vault.azure.net/⟨key⟩")
	}
	token, err := r.azureToken(ctx, "https://"+parts[2])
	if err != nil {
		return nil, err
	}
	address := "https://" + parts[1] + "/keys/" + parts[3]
	if parts[4] != "" {
		address += "/" + parts[4]
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"?api-version=7.4", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	var answer struct {
		Key        webKey `json:"key"`
		Attributes struct {
			Enabled *bool `json:"enabled"`
		} `json:"attributes"`
	}
	if err := sendJSON(req, transport, azureService, &answer); err != nil {
		return nil, err
	}
	if e := answer.Attributes.Enabled; e != nil && !*e {
		return nil, &fetch.GoneError{Err: errors.New("the key is disabled")}
	}
	key, err := answer.Key.public()
	if err != nil {
		return nil, err
	}
	return []crypto.PublicKey{key}, nil
}

// webKey is a JSON Web Key.
type webKey struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
	N     string `json:"n"`
	E     string `json:"e"`
}

func (k webKey) public() (crypto.PublicKey, error) {
	number := func(text string) *big.Int {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
		if err != nil || len(b) > maxRSA/8+1 {
			return new(big.Int)
		}
		return new(big.Int).SetBytes(b)
	}
	switch strings.TrimSuffix(k.Type, "-HSM") {
	case "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[k.Curve]
		if curve == nil {
			return nil, fmt.Errorf("keys on the curve %q are not supported", k.Curve)
		}
		x, y, size := number(k.X), number(k.Y), (curve.Params().BitSize+7)/8
		if x.BitLen() > 8*size || y.BitLen() > 8*size {
			return nil, errors.New("the key is not a point on its curve")
		}
		point := append([]byte{4}, make([]byte, 2*size)...) // uncompressed point
		x.FillBytes(point[1 : 1+size])
		y.FillBytes(point[1+size:])
		key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
		if err != nil {
			return nil, errors.New("the key is not a point on its curve")
		}
		return key, nil
	case "RSA":
		e := number(k.E)
		if !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return nil, errors.New("the exponent of the key is not accepted")
		}
		return usable(&rsa.PublicKey{N: number(k.N), E: int(e.Int64())})
	}
	return nil, fmt.Errorf("keys of type %q are not supported", k.Type)
}

// azureToken logs in for a resource, such as https://vault.azure.net.
func (r *Resolver) azureToken(ctx context.Context, resource string) (string, error) {
	req, err := azureLogin(ctx, resource)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := sendJSON(req, r.options.Operator, "the login of Azure", &answer); err != nil {
		var gone *fetch.GoneError
		if errors.As(err, &gone) {
			err = gone.Err // the login failed; the key may still exist
		}
		return "", err
	}
	if answer.Token == "" {
		return "", errors.New("the login to Azure returned no token")
	}
	return answer.Token, nil
}

func azureLogin(ctx context.Context, resource string) (*http.Request, error) {
	id, tenant, secret, file := os.Getenv("AZURE_CLIENT_ID"), os.Getenv("AZURE_TENANT_ID"), os.Getenv("AZURE_CLIENT_SECRET"), os.Getenv("AZURE_FEDERATED_TOKEN_FILE")
	if id == "" || tenant == "" || secret == "" && file == "" {
		query := url.Values{"api-version": {"2018-02-01"}, "resource": {resource}}
		if id != "" {
			query.Set("client_id", id)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://169.254.169.254/metadata/identity/oauth2/token?"+query.Encode(), nil)
		if err == nil {
			req.Header.Set("Metadata", "true")
		}
		return req, err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "scope": {resource + "/.default"}}
	if file != "" {
		assertion, err := os.ReadFile(file)
		if err != nil {
			return nil, errors.New("the file that AZURE_FEDERATED_TOKEN_FILE names cannot be read")
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", strings.TrimSpace(string(assertion)))
	} else {
		form.Set("client_secret", secret)
	}
	authority := first(os.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com/")
	if !strings.HasPrefix(authority, "https://") {
		return nil, errors.New("AZURE_AUTHORITY_HOST does not begin with https://")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(authority, "/")+"/"+url.PathEscape(tenant)+"/oauth2/v2.0/token", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("AZURE_AUTHORITY_HOST is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return req, nil
}
