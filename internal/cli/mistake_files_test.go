package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/golden"
)

// TestMistakeFiles holds what the program prints for the mistakes of newcomers: each file of testdata/mistakes has the files, the commands
// (section run, one on each line), and the exit code, standard output and standard error of each as the text wanted.
func TestMistakeFiles(t *testing.T) {
	golden.Run(t, "testdata/mistakes/*.txtar", func(t *testing.T, in golden.Inputs) string {
		home, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		t.Chdir(dir)
		defer func() { _ = os.Chdir(home) }() // the caller writes beside its files
		t.Setenv("KUBECONFIG", "/nonexistent")
		for _, f := range in {
			write(t, f.Name, string(f.Data))
		}
		var got strings.Builder
		for line := range strings.Lines(string(in.Text("run"))) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			out, errs, code := runIn(t, strings.Fields(line)...)
			fmt.Fprintf(&got, "$ ephor %s\n", line)
			for _, part := range []struct{ prefix, text string }{{"  ", out}, {"! ", errs}} {
				for text := range strings.Lines(part.text) {
					if text = strings.TrimRight(text, " \n"); text != "" {
						got.WriteString(part.prefix + text + "\n")
					}
				}
			}
			fmt.Fprintf(&got, "exit %d\n", code)
		}
		return regexp.MustCompile(`seconds: \d+`).ReplaceAllString(strings.ReplaceAll(got.String(), dir, "DIR"), "seconds: NOW")
	})
}
