package dashboard

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestDashboardFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "",
		"--dashboard":                            "",
		"--dashboard --dashboardAddress=::":      "",
		"--dashboardAddress=0.0.0.0":             "--dashboardAddress has no effect without --dashboard",
		"--dashboard --dashboardPort=0":          "--dashboardPort must be a port",
		"--dashboard --dashboardTLSSecretName=x": "--dashboardCASecretName and --dashboardTLSSecretName go together",
	} {
		f, fs := &Flags{}, pflag.NewFlagSet("reports", pflag.ContinueOnError)
		f.Register(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		switch err := f.Complete(); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
