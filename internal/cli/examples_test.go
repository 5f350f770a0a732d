package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every example in every help text uses existing commands and flags with valid values.
func TestExamples(t *testing.T) {
	found := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		text := strings.ReplaceAll(cmd.Example, "\\\n", " ")
		for line := range strings.Lines(text) {
			for _, args := range programs(line) {
				found++
				root := NewRoot()
				to, rest, err := root.Find(args)
				if err == nil {
					err = to.ParseFlags(rest)
				}
				if err == nil {
					err = to.ValidateArgs(to.Flags().Args())
				}
				if err == nil {
					err = to.ValidateRequiredFlags()
				}
				switch {
				case err != nil:
					t.Errorf("%s: %s: %v", cmd.CommandPath(), strings.TrimSpace(line), err)
				case to.CommandPath() != cmd.CommandPath():
					t.Errorf("%s: the example %s is about %s", cmd.CommandPath(), strings.TrimSpace(line), to.CommandPath())
				}
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(NewRoot())
	if found < 40 {
		t.Errorf("only %d examples were found", found)
	}
}

// programs returns the arguments of each call of ephor in a line of shell.
func programs(line string) [][]string {
	var calls [][]string
	var words []string
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	call := func() {
		end()
		if len(words) > 0 && words[0] == "ephor" {
			calls = append(calls, words[1:])
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case strings.ContainsRune("|<>()", r):
			call()
		case r == ' ' || r == '\n':
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	call()
	return calls
}
