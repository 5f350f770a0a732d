package flagset

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Every flag in the table has only one row, with a reason and a process.
func TestKnownFlagsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range knownFlags {
		if seen[k.name] || k.why == "" || strings.Trim(k.processes, "ABRCI") != "" || k.processes == "" {
			t.Errorf("%+v", k)
		}
		seen[k.name] = true
	}
}

func TestAccept(t *testing.T) {
	fs := pflag.NewFlagSet("admission", pflag.ContinueOnError)
	fs.Int("crdWatcher", 3, "a flag that has a meaning in this process")
	Accept(fs, "A")
	if fs.Lookup("cleanupServerHost") == nil || fs.Lookup("autoDeleteWebhooks") != nil {
		t.Error("a process has the flags of its own rows, and no others")
	}
	if err := fs.Parse([]string{"--alsologtostderr", "--vmodule=a=1", "--dumpPatches=false", "--crdWatcher=5"}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, given := range WithoutEffect(fs) {
		name, why, _ := strings.Cut(given, ": ")
		if names = append(names, name); why == "" {
			t.Errorf("%s has no reason", name)
		}
	}
	if want := []string{"--alsologtostderr", "--dumpPatches", "--vmodule"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if usage := fs.FlagUsages(); strings.Contains(usage, "without effect") {
		t.Errorf("the help shows flags without effect:\n%s", usage)
	}
	if err := fs.Parse([]string{"--dumpPatches=perhaps"}); err == nil {
		t.Error("a boolean takes any word")
	}
}
