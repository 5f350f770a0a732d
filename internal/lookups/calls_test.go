package lookups

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/apicall"
)

// The lists for calls come from the flags, or else from the environment, and are validated at the start.
func TestCallFlags(t *testing.T) {
	for _, c := range []struct {
		args  []string
		env   map[string]string
		block []string
		want  string // part of the error; empty for none
	}{
		{nil, nil, apicall.DefaultBlocklist, ""},
		{nil, map[string]string{EnvBlocklist: "10.0.0.0/8,x.example"}, []string{"10.0.0.0/8", "x.example"}, ""},
		{[]string{"--httpBlocklist=a.example"}, map[string]string{EnvBlocklist: "10.0.0.0/8"}, []string{"a.example"}, ""},
		{nil, map[string]string{EnvAllowlist: "example.com"}, apicall.DefaultBlocklist, "invalid HTTP flag configuration: "},
		{[]string{"--httpBlocklist=10.0.0.0/99"}, nil, []string{"10.0.0.0/99"}, "invalid HTTP flag configuration: "},
		{[]string{"--serviceTokenFile=x"}, nil, apicall.DefaultBlocklist, "go together"},
		{[]string{"--serviceTokenHosts=x"}, nil, apicall.DefaultBlocklist, "go together"},
		{[]string{"--apiCallTimeout=-1s"}, nil, apicall.DefaultBlocklist, "must not be negative"},
	} {
		f := &CallFlags{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(fs, AdmissionResponse)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		err := f.Complete(fs, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) || !slices.Equal(f.blocklist, c.block) {
			t.Errorf("%+v: %v, %v", c, f.blocklist, err)
		}
	}
}

// Row S12 of docs/security/threat-model.md: the token for services is read for every call, and is never the token for the API server.
func TestS12ServiceToken(t *testing.T) {
	dir := t.TempDir()
	f := &CallFlags{tokenFile: filepath.Join(dir, "projected")}
	before := apiToken
	apiToken = filepath.Join(dir, "own")
	defer func() { apiToken = before }()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.token(t.Context()); err == nil {
		t.Error("a missing file gives a token")
	}
	write("own", "api-token")
	for text, want := range map[string]string{"one\n": "one", "two": "two", "api-token\n": ""} {
		write("projected", text)
		if got, err := f.token(t.Context()); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
