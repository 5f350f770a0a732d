package lookups

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/sigverify/trust"
)

// trustFlags configure the source of the keys of transparency logs and certificate authorities.
type trustFlags struct {
	enabled                bool
	mirror, root, rootData string
	offline                string

	decoded []byte // decoded from rootData
}

// offlineRelease is the value of --offlineTrust that selects the trusted root included in the release.
const offlineRelease = "release"

// envTrustCache is the environment variable for the folder that keeps trust roots across restarts, as in Kyverno's charts.
const envTrustCache = "TUF_ROOT"

func (f *trustFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.enabled, "enableTuf", false, "use the trust root of --tufMirror for images instead of that of the public Sigstore instance; it is fetched in the background when a policy needs it")
	fs.StringVar(&f.mirror, "tufMirror", trust.DefaultMirror, "TUF repository with the trust root; used with --enableTuf")
	fs.StringVar(&f.root, "tufRoot", "", "initial TUF root of --tufMirror: a file or URL; empty for that of the public Sigstore instance")
	fs.StringVar(&f.rootData, "tufRootRaw", "", "initial TUF root of --tufMirror in base64; takes precedence over --tufRoot")
	fs.StringVar(&f.offline, "offlineTrust", "", "use this trusted_root.json file instead of fetching a trust root; without a value (--offlineTrust), use the one built into the release")
	fs.Lookup("offlineTrust").NoOptDefVal = offlineRelease
}

// complete checks combinations of flags. It sends no requests, so that an unavailable mirror does not prevent the start.
func (f *trustFlags) complete() error {
	if f.offline != "" && f.enabled {
		return errors.New("--offlineTrust and --enableTuf exclude each other")
	}
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(f.rootData))
	if err != nil {
		return errors.New("--tufRootRaw is not base64")
	}
	f.decoded = data
	if _, err := trust.New(f.options()); err != nil {
		return fmt.Errorf("--tufMirror, --tufRoot, --tufRootRaw: %w", err)
	}
	return nil
}

func (f *trustFlags) options() trust.Options {
	o := trust.Options{Offline: f.offline != "", CacheDir: trustCache(os.Getenv(envTrustCache))}
	if f.offline != offlineRelease {
		o.OfflineRoot = f.offline
	}
	if f.enabled {
		o.Mirror, o.RootData = f.mirror, f.decoded
		if len(f.decoded) == 0 {
			o.RootPath = f.root
		}
	}
	return o
}

// trustCache returns the folder if it exists.
func trustCache(path string) string {
	if info, err := os.Stat(path); path == "" || err != nil || !info.IsDir() {
		return ""
	}
	return path
}

// keeper returns the trust roots of a process, which renews them while it runs. Connections have the same restrictions as calls to
// services.
func (f *RegistryFlags) keeper(services *apicall.Services, log *slog.Logger) (*trust.Keeper, error) {
	o := f.trust.options()
	o.Log, o.Permit = log, services.Permit
	if !o.Offline {
		o.HTTP = f.transport(services)
	}
	return trust.New(o)
}

// transport returns the transport for trust roots and transparency logs. It has the same restrictions as calls to services, and uses the
// operator's proxy.
func (f *RegistryFlags) transport(services *apicall.Services) *http.Transport {
	t := &http.Transport{
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 20 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns: 8, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true,
	}
	services.Via(f.via, t)
	return t
}
