package registry

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	"github.com/google/go-containerregistry/pkg/authn"
	"golang.org/x/oauth2"
	googleauth "golang.org/x/oauth2/google"

	"ephor.invalid/ephor/internal/fetch"
)

// cloudTransport configures how the login services of clouds are reached. Their addresses come from the environment of the process and
// from the name of the registry's region, never from a policy, and the metadata service of a node has a link-local address. So they are
// not checked as the addresses of registries are, and a proxy is not used for a link-local address.
func (c *Client) cloudTransport(t *http.Transport) {
	proxy := c.proxy()
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		if a, err := netip.ParseAddr(r.URL.Hostname()); proxy == nil || err == nil && (a.IsLinkLocalUnicast() || a.IsLoopback() || a.IsPrivate()) {
			return nil, nil
		}
		return proxy(r)
	}
	t.DialContext = (&net.Dialer{Timeout: 2 * time.Second}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = 5*time.Second, 5*time.Second
	t.DisableKeepAlives, t.ForceAttemptHTTP2 = true, true
}

// cloudClient sends requests to the login services of clouds, and follows no redirect.
func (c *Client) cloudClient() *http.Client {
	transport := &http.Transport{}
	c.cloudTransport(transport)
	return &http.Client{
		Transport:     &limited{max: 1 << 20, requests: 64, next: transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// amazonHost matches a private registry of Amazon: account, FIPS, region.
var amazonHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{12})\.dkr[.-]ecr(-fips)?\.([a-z0-9][a-z0-9-]*)\.(amazonaws\.com|amazonaws\.com\.cn|amazonaws\.eu|on\.aws|on\.amazonwebservices\.com\.cn)$`)
})

func servedByAmazon(host string) bool {
	return host == "public.ecr.aws" || amazonHost().MatchString(host)
}

// loginToAmazon gets the token of a registry with the identity of the process: the role of its ServiceAccount, of its Pod or of its
// node, or keys in the environment.
func loginToAmazon(ctx context.Context, c *Client, host string) (cloudLogin, error) {
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(c.cloudTransport)), awsconfig.WithRetryMaxAttempts(2)}
	parts := amazonHost().FindStringSubmatch(host)
	if parts == nil {
		options = append(options, awsconfig.WithRegion("us-east-1")) // the region in which the public registry issues its tokens
	} else {
		options = append(options, awsconfig.WithRegion(parts[3]))
		if parts[2] != "" {
			options = append(options, awsconfig.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
		}
	}
	config, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return cloudLogin{}, err
	}
	if parts == nil {
		answer, err := ecrpublic.NewFromConfig(config).GetAuthorizationToken(ctx, &ecrpublic.GetAuthorizationTokenInput{})
		if err != nil {
			return cloudLogin{}, err
		}
		if answer.AuthorizationData == nil {
			return cloudLogin{}, errors.New("the token service of Amazon gave no token")
		}
		return amazonLogin(answer.AuthorizationData.AuthorizationToken, answer.AuthorizationData.ExpiresAt)
	}
	answer, err := ecr.NewFromConfig(config).GetAuthorizationToken(ctx, &ecr.GetAuthorizationTokenInput{})
	if err != nil {
		return cloudLogin{}, err
	}
	if len(answer.AuthorizationData) == 0 {
		return cloudLogin{}, errors.New("the token service of Amazon gave no token")
	}
	return amazonLogin(answer.AuthorizationData[0].AuthorizationToken, answer.AuthorizationData[0].ExpiresAt)
}

// amazonLogin decodes a token: base64 of user:password.
func amazonLogin(token *string, expires *time.Time) (cloudLogin, error) {
	text, err := base64.StdEncoding.DecodeString(aws.ToString(token))
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok || expires == nil {
		return cloudLogin{}, errors.New("the token service of Amazon gave a token that cannot be read")
	}
	return cloudLogin{config: authn.AuthConfig{Username: user, Password: password}, expires: *expires}, nil
}

func servedByGoogle(host string) bool {
	return host == "gcr.io" || strings.HasSuffix(host, ".gcr.io") || strings.HasSuffix(host, ".pkg.dev")
}

// loginToGoogle gets an access token with the default credentials of the process: from the metadata service of the node or of the
// workload, or the file that the environment names.
func loginToGoogle(ctx context.Context, c *Client, _ string) (cloudLogin, error) {
	source, err := googleauth.DefaultTokenSource(context.WithValue(ctx, oauth2.HTTPClient, c.cloudClient()), "https://www.googleapis.com/auth/devstorage.read_only", "https://www.googleapis.com/auth/cloud-platform")
	if err != nil {
		return cloudLogin{}, err
	}
	token, err := source.Token()
	if err != nil {
		return cloudLogin{}, err
	}
	return cloudLogin{config: authn.AuthConfig{Username: "oauth2accesstoken", Password: token.AccessToken}, expires: token.Expiry}, nil
}

var azureHosts = []string{".azurecr.io", ".azurecr.cn", ".azurecr.de", ".azurecr.us"}

func servedByAzure(host string) bool {
	return slices.ContainsFunc(azureHosts, func(s string) bool { return strings.HasSuffix(host, s) })
}

// Addresses of Azure's login services; tests change them.
var (
	azureMetadata = "http://169.254.169.254/metadata/identity/oauth2/token"
	azureExchange = func(host string) string { return "https://" + host + "/oauth2/exchange" }
)

// loginToAzure gets the refresh token of a registry in two requests: a token for the identity of the process (a workload identity, a
// secret of an application, or the managed identity of the node), which the registry exchanges for one of its own.
func loginToAzure(ctx context.Context, c *Client, host string) (cloudLogin, error) {
	client, tenant := c.cloudClient(), os.Getenv("AZURE_TENANT_ID")
	token, err := azureToken(ctx, client, host, tenant)
	if err != nil {
		return cloudLogin{}, err
	}
	form := url.Values{"grant_type": {"access_token"}, "service": {host}, "access_token": {token}}
	if tenant != "" {
		form.Set("tenant", tenant)
	}
	var answer struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := post(ctx, client, azureExchange(host), form, &answer); err != nil {
		return cloudLogin{}, err
	}
	if answer.RefreshToken == "" {
		return cloudLogin{}, errors.New("the token service of Azure gave no token for the registry")
	}
	return cloudLogin{config: authn.AuthConfig{IdentityToken: answer.RefreshToken}, expires: expiryOf(answer.RefreshToken)}, nil
}

// azureToken gets an access token for registries.
func azureToken(ctx context.Context, client *http.Client, host, tenant string) (string, error) {
	audience := "https://containerregistry.azure.net"
	switch {
	case strings.HasSuffix(host, ".azurecr.cn"):
		audience = "https://management.chinacloudapi.cn"
	case strings.HasSuffix(host, ".azurecr.us"):
		audience = "https://management.usgovcloudapi.net"
	}
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	id, file, secret := os.Getenv("AZURE_CLIENT_ID"), os.Getenv("AZURE_FEDERATED_TOKEN_FILE"), os.Getenv("AZURE_CLIENT_SECRET")
	if id != "" && tenant != "" && (file != "" || secret != "") {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "scope": {audience + "/.default"}}
		if file != "" {
			assertion, err := os.ReadFile(file) // the kubelet writes and renews it
			if err != nil {
				return "", err
			}
			form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
			form.Set("client_assertion", string(assertion))
		} else {
			form.Set("client_secret", secret)
		}
		authority := strings.TrimSuffix(cmp.Or(os.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"), "/")
		err := post(ctx, client, authority+"/"+url.PathEscape(tenant)+"/oauth2/v2.0/token", form, &answer)
		if err == nil && answer.AccessToken == "" {
			err = errors.New("the token service of Azure gave no token")
		}
		return answer.AccessToken, err
	}
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {audience}}
	if id != "" {
		query.Set("client_id", id)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, azureMetadata+"?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Metadata", "true")
	err = fetchJSON(client, req, &answer)
	if err == nil && answer.AccessToken == "" {
		err = errors.New("the node has no identity in Azure")
	}
	return answer.AccessToken, err
}

func post(ctx context.Context, client *http.Client, address string, form url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return fetchJSON(client, req, into)
}

// fetchJSON sends a request for a token. Its errors contain nothing of the request or the answer.
func fetchJSON(client *http.Client, req *http.Request, into any) error {
	answer, body, err := fetch.Do(client, req, 1<<20)
	if err != nil {
		return fetch.Bare(err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with status %d", req.URL.Host, answer.StatusCode)
	}
	if json.Unmarshal(body, into) != nil {
		return fmt.Errorf("%s answers with something else than JSON", req.URL.Host)
	}
	return nil
}

// expiryOf returns when a JSON web token expires according to its content; an hour from now if it does not say.
func expiryOf(token string) time.Time {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		var claims struct {
			Exp int64 `json:"exp"`
		}
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil && json.Unmarshal(text, &claims) == nil && claims.Exp > 0 {
			return time.Unix(claims.Exp, 0)
		}
	}
	return time.Now().Add(time.Hour)
}
