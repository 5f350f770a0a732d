package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each flag of Kyverno's cleanup controller exists, with or without an effect.
func TestReferenceFlagsOfCleanup(t *testing.T) {
	if os.Getenv("EPHOR_CONFORMANCE") == "none" {
		t.Skip("EPHOR_CONFORMANCE=none: the reference is not compared")
	}
	folder := os.Getenv("EPHOR_REFERENCE")
	if folder == "" {
		folder = "../shared/reference"
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join("..", "..", folder)
	}
	text, err := os.ReadFile(filepath.Join(folder, "controlplane.md"))
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)### 1\.5 Flags(.*?)### 1\.6`).FindSubmatch(text)
	if section == nil {
		t.Fatal("the reference has no section 1.5")
	}
	_, fs := settingsOf(nameCleanup)
	checked := 0
	flags := func(text string) {
		for _, m := range regexp.MustCompile("`--([A-Za-z]+)`").FindAllStringSubmatch(text, -1) {
			checked++
			if fs.Lookup(m[1]) == nil {
				t.Errorf("--%s of the reference does not exist", m[1])
			}
		}
	}
	own := false
	for line := range strings.Lines(string(section[1])) {
		own = own || strings.HasPrefix(line, "**Admission controller**")
		if text, ok := strings.CutPrefix(line, "**Cleanup**:"); ok {
			text, _, _ = strings.Cut(text, "has **no**")
			flags(text)
		}
		cells := strings.Split(line, "|")
		if own || len(cells) < 5 || !strings.Contains(cells[1], "`--") {
			continue
		}
		if who := strings.TrimSpace(cells[3]); strings.Contains(who, "C") || strings.HasPrefix(who, "all") {
			flags(cells[1])
		}
	}
	if checked < 55 {
		t.Errorf("only %d flags were found in the reference", checked)
	}
}

func TestCleanupFlags(t *testing.T) {
	required := []string{"--caSecretName=a", "--tlsSecretName=b"}
	for _, c := range []struct {
		args []string
		want string // part of the error; empty for none
	}{
		{args: required},
		{want: "--caSecretName and --tlsSecretName are required"},
		{args: append(required, "--deadManSeconds=30", "--ttlReconciliationInterval=5s", "--protectManagedResources", "--webhookServerPort=1")},
		{args: append(required, "--deadManSeconds=29"), want: "29 is less than 30"},
		{args: append(required, "--deadManSeconds=-1"), want: "less than 30"},
		{args: append(required, "--omitEvents=x", "--autoUpdateWebhooks"), want: "unknown flag"},
		{args: append(required, "--noSuchFlag"), want: "unknown flag"},
		{args: append(required, "--maxDeletionsPerRun=100", "--enablePolicyException", "--exceptionNamespace=a", "--apiCallTimeout=5s", "--httpBlocklist=10.0.0.0/8", "--maxGlobalContextEntries=5", "--dumpPayload")},
		{args: append(required, "--maxDeletionsPerRun=-1"), want: "--maxDeletionsPerRun must not be negative"},
		{args: append(required, "--ttlReconciliationInterval=0s"), want: "--ttlReconciliationInterval must be positive"},
	} {
		f, fs := settingsOf(nameCleanup)
		err := fs.Parse(c.args)
		if err == nil {
			err = f.complete(fs, func(string) (string, bool) { return "", false })
		}
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestAllFlags(t *testing.T) {
	required := []string{"--caSecretName=a", "--tlsSecretName=b", "--cleanupCASecretName=c", "--cleanupTLSSecretName=d"}
	for _, c := range []struct {
		args []string
		want string // part of the error; empty for none
		ip   string // the address of the cleanup controller
	}{
		{args: append(required, "--tlsKeyAlgorithm=ECDSA")},
		{args: append(required, "--serverIP=10.0.0.1:9443"), want: "--serverIP and --cleanupServerIP go together"},
		{args: append(required, "--serverIP=10.0.0.1:9443", "--cleanupServerIP=10.0.0.1:9444"), ip: "10.0.0.1:9444"},
		{args: append(required, "--serverIP=10.0.0.1:9443", "--without=cleanup")},
		{args: required[:2], want: "--cleanupCASecretName and --cleanupTLSSecretName are required"},
		{args: append(required, "--deadManSeconds=60"), want: "in a separate process"},
	} {
		f, fs := settingsOf(nameAll)
		err := fs.Parse(c.args)
		if err == nil {
			err = f.complete(fs, func(string) (string, bool) { return "", false })
		}
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
		if own, service := f.serverOf(nameCleanup, env{service: "other"}); c.want == "" && (own.CASecret != "c" || f.serving.CASecret != "a" || own.Algorithm != f.serving.Algorithm ||
			f.cleanup.port != 9444 || own.ServerIP != c.ip || service != "kyverno-cleanup-controller") {
			t.Errorf("%+v, %s", own, service)
		}
	}
}

// All controllers of a process have its settings: those that several have, and their own.
func TestOneSettingsValue(t *testing.T) {
	args := []string{"--caSecretName=a", "--tlsSecretName=b", "--cleanupCASecretName=c", "--cleanupTLSSecretName=d", "--without=reports"}
	f, fs := settingsOf(nameAll)
	if err := fs.Parse(append(args, "--enablePolicyException", "--exceptionNamespace=a", "--protectManagedResources", "--admissionReports=false")); err != nil {
		t.Fatal(err)
	}
	if err := f.complete(fs, func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	if !f.exceptions.On() || !f.protectManaged || f.admissionReports || f.probes.port != 0 || !f.runs(nameCleanup) || f.runs(nameReports) {
		t.Errorf("%+v", f)
	}
}
