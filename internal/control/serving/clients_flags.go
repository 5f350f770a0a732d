package serving

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// ClientFlags configure the clients of the HTTPS server.
type ClientFlags struct {
	clientCA      string
	clientNames   []string
	tokenUsers    []string
	tokenAudience string
	tlsMinVersion string
	minVersion    uint16 // parsed from tlsMinVersion
	sourceQPS     float64
	sourceBurst   int
}

// Register adds the flags.
func (f *ClientFlags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.clientCA, "client-ca-file", "", "file with the certificate authorities that sign the client certificate of the API server; reviews from other clients are rejected. Empty to accept all clients")
	fs.StringSliceVar(&f.clientNames, "client-names", nil, "common names of the client certificates that are accepted; empty for every certificate signed by --client-ca-file")
	fs.StringSliceVar(&f.tokenUsers, "apiServerTokenUsers", nil, "users whose tokens the API server presents to its webhooks, such as system:serviceaccount:kube-system:webhooks; reviews without a valid token of one of them are rejected. Empty to require no token")
	fs.StringVar(&f.tokenAudience, "apiServerTokenAudience", "", "audience of the tokens of --apiServerTokenUsers; empty for https://⟨service⟩.⟨namespace⟩.svc:443")
	fs.StringVar(&f.tlsMinVersion, "tls-min-version", "1.3", "minimum TLS version: 1.2 or 1.3")
	fs.Float64Var(&f.sourceQPS, "sourceRateLimitQPS", 0, "maximum number of reviews per second from one address; 0 for no limit. Clients with a certificate signed by --client-ca-file, or a token of --apiServerTokenUsers, are not limited")
	fs.IntVar(&f.sourceBurst, "sourceRateLimitBurst", 1000, "maximum burst of reviews from one address when --sourceRateLimitQPS is set")
}

// Complete checks the flags.
func (f *ClientFlags) Complete() error {
	var errs []error
	switch f.tlsMinVersion {
	case "1.2", "VersionTLS12":
		f.minVersion = tls.VersionTLS12
	case "1.3", "VersionTLS13":
		f.minVersion = tls.VersionTLS13
	default:
		errs = append(errs, fmt.Errorf("--tls-min-version: %q is neither 1.2 nor 1.3", f.tlsMinVersion))
	}
	if f.clientCA == "" && len(f.clientNames) > 0 {
		errs = append(errs, errors.New("--client-names needs --client-ca-file"))
	}
	if len(f.tokenUsers) == 0 && f.tokenAudience != "" {
		errs = append(errs, errors.New("--apiServerTokenAudience needs --apiServerTokenUsers"))
	}
	if f.sourceQPS < 0 || f.sourceBurst < 1 {
		errs = append(errs, errors.New("--sourceRateLimitQPS must not be negative, --sourceRateLimitBurst must be positive"))
	}
	return errors.Join(errs...)
}
