package app

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/app/flagset"
)

// servingFlags configure the clients of the HTTPS server, and how it handles requests apart from the evaluation.
type servingFlags struct {
	clientCA      string
	clientNames   []string
	tlsMinVersion string
	minVersion    uint16 // parsed from tlsMinVersion
	sourceQPS     float64
	sourceBurst   int

	protectManaged    bool
	dumpPayload       bool
	backgroundAccount string
}

// envProtect is the environment variable for --protectManagedResources.
const envProtect = "FLAG_PROTECT_MANAGED_RESOURCES"

func (f *servingFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.clientCA, "client-ca-file", "", "file with the authorities that sign the API server's client certificate; reviews of anybody else are refused. Empty: everybody is answered")
	fs.StringSliceVar(&f.clientNames, "client-names", nil, "common names of the client certificates that are accepted; empty for all that --client-ca-file signed")
	fs.StringVar(&f.tlsMinVersion, "tls-min-version", "1.3", "lowest version of TLS: 1.2 or 1.3")
	fs.Float64Var(&f.sourceQPS, "sourceRateLimitQPS", 0, "reviews per second from one address; 0 for no limit. Clients with a certificate of --client-ca-file have none")
	fs.IntVar(&f.sourceBurst, "sourceRateLimitBurst", 1000, "reviews that may come at once from one address when there is a limit")
	flagset.Switch(fs, &f.protectManaged, "protectManagedResources", envProtect, false, "let no other client change resources that are labelled as managed by kyverno")
	fs.BoolVar(&f.dumpPayload, "dumpPayload", false, "log reviews and answers, with --v=4 and more; contents of Secrets are left out")
	fs.StringVar(&f.backgroundAccount, "backgroundServiceAccountName", "", "user name of the background controller (system:serviceaccount:⟨namespace⟩:⟨name⟩), whose requests ask for no work")
}

// complete checks the flags.
func (f *servingFlags) complete() error {
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
	if f.sourceQPS < 0 || f.sourceBurst < 1 {
		errs = append(errs, errors.New("--sourceRateLimitQPS must not be negative, --sourceRateLimitBurst must be positive"))
	}
	return errors.Join(errs...)
}
