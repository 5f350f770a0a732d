package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func admissionSet() (*admissionFlags, *pflag.FlagSet) {
	f, fs := &admissionFlags{}, pflag.NewFlagSet("admission", pflag.ContinueOnError)
	f.register(fs)
	return f, fs
}

// Every flag of the table has one row, one reason and a process; none has a meaning as well.
func TestKnownFlagsTable(t *testing.T) {
	_, fs := admissionSet()
	seen := map[string]bool{}
	for _, k := range knownFlags {
		if seen[k.name] || k.why == "" || strings.Trim(k.processes, "ABRCI") != "" || k.processes == "" {
			t.Errorf("%+v", k)
		}
		seen[k.name] = true
		if f := fs.Lookup(k.name); f != nil && strings.Contains(k.processes, "A") {
			if _, ok := f.Value.(*knownValue); !ok {
				t.Errorf("--%s has a meaning: take it out of the table", k.name)
			}
		}
	}
}

// Each flag that Kyverno gives to the admission controller exists, with its meaning or without.
func TestReferenceFlags(t *testing.T) {
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
	_, fs := admissionSet()
	section := regexp.MustCompile(`(?s)### 1\.5 Flags(.*?)\*\*Background\*\*`).FindSubmatch(text)
	if section == nil {
		t.Fatal("the reference has no section 1.5")
	}
	checked, own := 0, false
	for line := range strings.Lines(string(section[1])) {
		own = own || strings.HasPrefix(line, "**Admission controller**")
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`--") {
			continue
		}
		if who := strings.TrimSpace(cells[3]); !own && !strings.Contains(who, "A") && !strings.HasPrefix(who, "all") {
			continue
		}
		for _, m := range regexp.MustCompile("`--([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
			checked++
			if fs.Lookup(m[1]) == nil {
				t.Errorf("--%s of the reference does not exist", m[1])
			}
		}
	}
	if checked < 80 {
		t.Errorf("only %d flags were found in the reference", checked)
	}
}

// What has no meaning is accepted and reported in one line; it does not show in the help.
func TestFlagsWithoutMeaningAreReported(t *testing.T) {
	_, fs := admissionSet()
	if err := fs.Parse([]string{"--webhookRegistrationTimeout=7s", "--enableCosignLogging", "--alsologtostderr=false", "--dumpPatches", "--v=2"}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	logKnown(slog.New(slog.NewTextHandler(&out, nil)), givenKnown(fs))
	text := out.String()
	if strings.Count(text, "\n") != 1 || strings.Contains(text, "--v:") {
		t.Errorf("%q", text)
	}
	for _, want := range []string{"--webhookRegistrationTimeout", "--enableCosignLogging", "--alsologtostderr", "--dumpPatches"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not tell %s", text, want)
		}
	}
	if usage := fs.FlagUsages(); strings.Contains(usage, "without effect") || !strings.Contains(usage, "--caSecretName") {
		t.Error(usage)
	}
	out.Reset()
	if logKnown(slog.New(slog.NewTextHandler(&out, nil)), nil); out.Len() > 0 {
		t.Error("nothing to log, but logged")
	}
	if _, fs := admissionSet(); fs.Parse([]string{"--enableTuf=perhaps"}) == nil {
		t.Error("a boolean takes any word")
	}
}

func TestUnknownFlagsAreRefused(t *testing.T) {
	for arg, want := range map[string]string{
		"--caSecretNmae=x":          "did you mean --caSecretName?",
		"--CASECRETNAME=x":          "did you mean --caSecretName?",
		"--webhookTimeouts=3":       "did you mean --webhookTimeout?",
		"--registryCredentialHelp":  "did you mean --registryCredentialHelpers?",
		"--completely-unknown-flag": "`admission --help` lists the flags",
	} {
		cmd := newAdmissionCommand()
		cmd.SetArgs([]string{arg})
		cmd.SilenceErrors = true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "unknown flag") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
