package serving

import (
	"crypto/tls"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// The authorities follow their file. A version that cannot be read does not replace a valid one.
func TestAuthoritiesFollowTheirFile(t *testing.T) {
	server := httptest.NewTLSServer(nil) // provides a certificate
	defer server.Close()
	good := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	file := filepath.Join(t.TempDir(), "ca.crt")
	f := &ClientFlags{clientCA: file}
	if _, err := f.Clients(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--client-ca-file") {
		t.Errorf("a file that is not there: %v", err)
	}
	at := time.Now()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("nothing")
	if _, err := f.Clients(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "contains no certificate") {
		t.Errorf("a file without certificates: %v", err)
	}
	write(good)
	now := time.Unix(0, 0)
	var log strings.Builder
	a := &authorities{file: file, now: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(&log, nil))}
	pool := func() any {
		t.Helper()
		p, err := a.pool()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := pool()
	write(good + good)
	if pool() != first {
		t.Error("the file is read at every handshake")
	}
	now = now.Add(lookAgain)
	second := pool()
	if second == first {
		t.Error("a new content is not read")
	}
	for _, c := range []struct {
		change func()
		says   string
	}{{func() { write("broken") }, "contains no certificate"}, {func() { _ = os.Remove(file) }, "no such file"}} {
		c.change()
		log.Reset()
		for range 3 {
			now = now.Add(lookAgain)
			if pool() != second {
				t.Error("an unreadable version replaced a valid one")
			}
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, c.says) {
			t.Errorf("the log says %q, want one line with %q", text, c.says)
		}
	}
	log.Reset()
	write(good)
	now = now.Add(lookAgain)
	if third := pool(); third == second || log.Len() > 0 {
		t.Errorf("a version that can be read again is not used; the log says %q", log.String())
	}
}

func TestServingFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // part of the error; empty for none
		min  uint16
	}{
		{nil, "", tls.VersionTLS13},
		{[]string{"--tls-min-version=1.2"}, "", tls.VersionTLS12},
		{[]string{"--tls-min-version=VersionTLS13"}, "", tls.VersionTLS13},
		{[]string{"--tls-min-version=1.1"}, "neither 1.2 nor 1.3", 0},
		{[]string{"--client-names=x"}, "needs --client-ca-file", 0},
		{[]string{"--sourceRateLimitQPS=-1"}, "must not be negative", 0},
	} {
		f, fs := &ClientFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		err := f.Complete()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && f.minVersion != c.min {
			t.Errorf("%+v: %+v", c, f)
		}
		if clients, err := f.Clients(slog.New(slog.DiscardHandler)); err != nil || clients.Authorities != nil {
			t.Errorf("%+v: %+v, %v", c, clients, err)
		}
	}
}
