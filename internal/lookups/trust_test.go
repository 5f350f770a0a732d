package lookups

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/sigverify/trust"
	"ephor.invalid/ephor/internal/world"
)

func parsedRegistry(args ...string) (*RegistryFlags, error) {
	var f RegistryFlags
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(fs)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return &f, f.Complete()
}

// The trust flags are those of Kyverno and --offlineTrust. An unreachable mirror is not an error.
func TestTrustFlags(t *testing.T) {
	raw := base64.StdEncoding.EncodeToString([]byte("{}"))
	t.Setenv(envTrustCache, t.TempDir())
	for _, c := range []struct {
		args []string
		want trust.Options
		fail string
	}{
		{nil, trust.Options{}, ""},
		{[]string{"--tufMirror=https://a.example", "--tufRoot=/root.json"}, trust.Options{}, ""}, // no effect without --enableTuf
		{[]string{"--enableTuf"}, trust.Options{Mirror: trust.DefaultMirror}, ""},
		{[]string{"--enableTuf=true", "--tufMirror=https://unreachable.invalid", "--tufRoot=/gone.json"}, trust.Options{Mirror: "https://unreachable.invalid", RootPath: "/gone.json"}, ""},
		{[]string{"--enableTuf", "--tufRoot=/root.json", "--tufRootRaw=" + raw}, trust.Options{Mirror: trust.DefaultMirror, RootData: []byte("{}")}, ""},
		{[]string{"--offlineTrust"}, trust.Options{Offline: true}, ""},
		{[]string{"--offlineTrust=/etc/root.json"}, trust.Options{Offline: true, OfflineRoot: "/etc/root.json"}, ""},
		{[]string{"--offlineTrust", "--enableTuf"}, trust.Options{}, "exclude each other"},
		{[]string{"--tufRootRaw=%"}, trust.Options{}, "not base64"},
		{[]string{"--enableTuf", "--tufMirror=file:///x"}, trust.Options{}, "https://"},
		{[]string{"--registryProxy=ftp://x"}, trust.Options{}, "--registryProxy"},
	} {
		f, err := parsedRegistry(c.args...)
		if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%v: %v, want %q", c.args, err, c.fail)
		}
		if err != nil {
			continue
		}
		got := f.trust.options()
		if got.CacheDir == "" {
			t.Errorf("%v: the folder of %s is not used", c.args, envTrustCache)
		}
		if got.Mirror != c.want.Mirror || got.RootPath != c.want.RootPath || string(got.RootData) != string(c.want.RootData) || got.Offline != c.want.Offline || got.OfflineRoot != c.want.OfflineRoot {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
	t.Setenv(envTrustCache, filepath.Join(t.TempDir(), "gone"))
	if f, err := parsedRegistry(); err != nil || f.trust.options().CacheDir != "" {
		t.Errorf("a folder that is not there is used: %v", err)
	}
}

// With --offlineTrust, a process has trust roots without a connection. Without it, all connections use the dialer for services.
func TestOfflineTrustConnectsToNothing(t *testing.T) {
	var asked atomic.Int32
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			c.Close()
		}
	}()
	services, err := apicall.NewServices(apicall.ServiceOptions{Block: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--offlineTrust"}, {"--enableTuf", "--tufMirror=http://" + listener.Addr().String()}} {
		f, err := parsedRegistry(args...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		k, err := f.keeper(services, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = k.Run(ctx) }()
		_, err = k.Material(t.Context(), world.Trust{})
		if offline := len(args) == 1; (err == nil) != offline || !offline && !strings.Contains(err.Error(), "blocked") {
			t.Errorf("%v: %v", args, err)
		}
		cancel()
	}
	if asked.Load() != 0 {
		t.Errorf("%d connections", asked.Load())
	}
}
