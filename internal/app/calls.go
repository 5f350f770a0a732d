package app

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/ephor-dev/ephor/internal/apicall"
)

// callFlags say what the API calls of context entries may do (control plane reference §1.5).
type callFlags struct {
	maxResponse int64
	timeout     time.Duration
	blocklist   []string
	allowlist   []string
}

// Environment's forms of the lists; the flags win.
const (
	envBlocklist = "FLAG_HTTP_BLOCKLIST"
	envAllowlist = "FLAG_HTTP_ALLOWLIST"
)

func (f *callFlags) register(fs *pflag.FlagSet) {
	fs.Int64Var(&f.maxResponse, "maxAPICallResponseLength", 10_000_000, "bytes of the longest answer to an API call of a context entry; 0 for 2000000: there is always a limit")
	fs.DurationVar(&f.timeout, "apiCallTimeout", 30*time.Second, "longest time of an API call of a context entry; 0 for 30s")
	fs.StringSliceVar(&f.blocklist, "httpBlocklist", apicall.DefaultBlocklist, "addresses, ranges and host names that services of context entries must not be (environment: "+envBlocklist+")")
	fs.StringSliceVar(&f.allowlist, "httpAllowlist", nil, "beginnings of the only URLs that context entries may call; empty for all (environment: "+envAllowlist+")")
}

// complete takes the lists from the environment and checks them.
func (f *callFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	for _, l := range []struct {
		flag, env string
		to        *[]string
	}{{"httpBlocklist", envBlocklist, &f.blocklist}, {"httpAllowlist", envAllowlist, &f.allowlist}} {
		if v, ok := lookup(l.env); ok && v != "" && !fs.Changed(l.flag) {
			*l.to = strings.Split(v, ",")
		}
	}
	if f.maxResponse < 0 || f.timeout < 0 {
		return errors.New("--maxAPICallResponseLength and --apiCallTimeout must not be negative")
	}
	_, err := f.services()
	return err
}

func (f *callFlags) limits() apicall.Limits {
	return apicall.Limits{MaxBytes: f.maxResponse, Timeout: f.timeout}
}

func (f *callFlags) services() (*apicall.Services, error) {
	return apicall.NewServices(apicall.ServiceOptions{Limits: f.limits(), Block: f.blocklist, Allow: f.allowlist})
}

func (f *callFlags) kubernetes(cfg *rest.Config) (*apicall.Kubernetes, error) {
	return apicall.NewKubernetes(cfg, f.limits())
}
