package keys

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const vaultService = "Vault"

var vaultKey = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^hashivault://(\w(?:[\w.-]*\w)?)$`)
})

// vault reads a key of the transit engine of Vault or OpenBao: hashivault://⟨key⟩. It returns all versions that may still verify signatures.
// The address, token and engine come from VAULT_ADDR, VAULT_TOKEN (or the file ~/.vault-token) and TRANSIT_SECRET_ENGINE_PATH.
// VAULT_NAMESPACE sets a namespace.
func (r *Resolver) vault(ctx context.Context, ref string, transport http.RoundTripper) ([]crypto.PublicKey, error) {
	parts := vaultKey().FindStringSubmatch(ref)
	if parts == nil {
		return nil, errors.New("it does not have the form hashivault://⟨key⟩")
	}
	address, err := url.Parse(os.Getenv("VAULT_ADDR"))
	if err != nil || address.Hostname() == "" || address.User != nil || address.Scheme != "https" && address.Scheme != "http" {
		return nil, errors.New("VAULT_ADDR is not set to the URL of a Vault")
	}
	token, err := vaultToken()
	if err != nil {
		return nil, err
	}
	engine := strings.Trim(first(os.Getenv("TRANSIT_SECRET_ENGINE_PATH"), "transit"), "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("v1", engine, "keys", parts[1]).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Vault-Token", token)
	req.Header.Set("X-Vault-Request", "true")
	if n := os.Getenv("VAULT_NAMESPACE"); n != "" {
		req.Header.Set("X-Vault-Namespace", n)
	}
	var answer struct {
		Data struct {
			Keys map[string]struct {
				PublicKey string `json:"public_key"`
			} `json:"keys"`
			Oldest int    `json:"min_decryption_version"` // the oldest version that may still verify
			Type   string `json:"type"`
		} `json:"data"`
	}
	if err := sendJSON(req, transport, vaultService, &answer); err != nil {
		return nil, err
	}
	var versions []int
	for v := range answer.Data.Keys {
		if n, err := strconv.Atoi(v); err == nil && n >= answer.Data.Oldest {
			versions = append(versions, n)
		}
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	var out []crypto.PublicKey
	for _, v := range versions {
		text := answer.Data.Keys[strconv.Itoa(v)].PublicKey
		var key crypto.PublicKey
		if answer.Data.Type == "ed25519" {
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil || len(raw) != ed25519.PublicKeySize {
				return nil, fmt.Errorf("%s returned a key that cannot be read", vaultService)
			}
			key = ed25519.PublicKey(raw)
		} else if key, err = r.parsed.key(text); err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, nil
}

func vaultToken() (string, error) {
	if t := os.Getenv("VAULT_TOKEN"); t != "" {
		return strings.TrimSpace(t), nil
	}
	if home, err := os.UserHomeDir(); err == nil {
		if text, err := os.ReadFile(filepath.Join(home, ".vault-token")); err == nil && len(text) > 0 {
			return strings.TrimSpace(string(text)), nil
		}
	}
	return "", errors.New("there is no token for Vault: VAULT_TOKEN is not set")
}
