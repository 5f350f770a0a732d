package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each flag of Kyverno's admission controller exists, with or without an effect.
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
	_, fs := settingsOf(nameAdmission)
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

func TestUnknownFlagsAreRefused(t *testing.T) {
	for arg, want := range map[string]string{
		"--caSecretNmae=x":          "did you mean --caSecretName?",
		"--CASECRETNAME=x":          "did you mean --caSecretName?",
		"--webhookTimeouts=3":       "did you mean --webhookTimeout?",
		"--registryCredentialHelp":  "did you mean --registryCredentialHelpers?",
		"--completely-unknown-flag": "`admission --help` lists the flags",
	} {
		cmd := newCommand(nameAdmission)
		cmd.SetArgs([]string{arg})
		cmd.SilenceErrors = true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "unknown flag") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
