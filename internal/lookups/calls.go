package lookups

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/flagset"
)

// CallFlags configure which API calls context entries may make.
type CallFlags struct {
	maxResponse int64
	timeout     time.Duration
	blocklist   []string
	allowlist   []string
	tokenFile   string
	tokenHosts  []string
	Namespaced  bool // namespaced CEL policies may make calls, too
}

// The environment variables for the flags. The flags take precedence.
const (
	EnvBlocklist      = "FLAG_HTTP_BLOCKLIST"
	EnvAllowlist      = "FLAG_HTTP_ALLOWLIST"
	EnvNamespacedHTTP = "FLAG_ENABLE_HTTP_IN_NAMESPACED_POLICIES"
)

// Defaults of --maxAPICallResponseLength.
const (
	AdmissionResponse = 10_000_000
	OtherResponse     = 2_000_000 // for all other controllers
)

// Register adds the flags. maxResponse is the default of --maxAPICallResponseLength.
func (f *CallFlags) Register(fs *pflag.FlagSet, maxResponse int64) {
	fs.Int64Var(&f.maxResponse, "maxAPICallResponseLength", maxResponse, "maximum size in bytes of a response to an API call of a context entry; 0 means 2000000, since there is always a limit")
	fs.DurationVar(&f.timeout, "apiCallTimeout", 30*time.Second, "timeout of an API call of a context entry; 0 means 30s")
	fs.StringSliceVar(&f.blocklist, "httpBlocklist", apicall.DefaultBlocklist, "addresses, ranges and host names that services of context entries must not use (environment: "+EnvBlocklist+")")
	fs.StringSliceVar(&f.allowlist, "httpAllowlist", nil, "URL prefixes to which services of context entries and registries of namespaced policies are limited; empty for no limit (environment: "+EnvAllowlist+")")
	flagset.Switch(fs, &f.Namespaced, "allowHTTPInNamespacedPolicies", EnvNamespacedHTTP, false, "allow namespaced policies of policies.kyverno.io to call HTTP services; namespaced Policies can never call them")
	fs.StringVar(&f.tokenFile, "serviceTokenFile", "", "file with a projected ServiceAccount token whose audience is the services of context entries; without it services get no token. They never get the token for the API server")
	fs.StringSliceVar(&f.tokenHosts, "serviceTokenHosts", nil, "host names to which the token of --serviceTokenFile is sent, over TLS only")
}

// Complete reads the lists from the environment and checks them.
func (f *CallFlags) Complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	for _, l := range []struct {
		flag, env string
		to        *[]string
	}{{"httpBlocklist", EnvBlocklist, &f.blocklist}, {"httpAllowlist", EnvAllowlist, &f.allowlist}} {
		if v, ok := lookup(l.env); ok && v != "" && !fs.Changed(l.flag) {
			*l.to = strings.Split(v, ",")
		}
	}
	if f.maxResponse < 0 || f.timeout < 0 {
		return errors.New("--maxAPICallResponseLength and --apiCallTimeout must not be negative")
	}
	if (f.tokenFile == "") != (len(f.tokenHosts) == 0) {
		return errors.New("--serviceTokenFile and --serviceTokenHosts go together")
	}
	_, err := apicall.NewServices(f.services())
	return err
}

func (f *CallFlags) limits() apicall.Limits {
	return apicall.Limits{MaxBytes: f.maxResponse, Timeout: f.timeout}
}

func (f *CallFlags) services() apicall.ServiceOptions {
	o := apicall.ServiceOptions{Limits: f.limits(), Block: f.blocklist, Allow: f.allowlist, TokenHosts: f.tokenHosts}
	if f.tokenFile != "" {
		o.Token = f.token
	}
	return o
}

// maxToken is larger than any token, in bytes.
const maxToken = 64 << 10

// token reads the file for every call, since the kubelet replaces the token before it expires. It rejects the token for
// the API server, because the receiver of that token could act as this process.
func (f *CallFlags) token(context.Context) (string, error) {
	file, err := os.Open(f.tokenFile)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := bounded.Read(file, maxToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if own, err := os.ReadFile(apiToken); err == nil && strings.TrimSpace(string(own)) == token {
		return "", errors.New("--serviceTokenFile contains the token for the API server; project a token with a separate audience")
	}
	return token, nil
}

// apiToken is the path of the kubelet's token for the API server.
var apiToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
