package cli

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/html"
)

// parsers read a whole text with the library of its format, as programs do. Text before or after the document is an error.
var parsers = map[string]func(string) error{
	"json":       func(text string) error { return values(json.NewDecoder(strings.NewReader(text)).Decode, 1) },
	"json-lines": func(text string) error { return values(json.NewDecoder(strings.NewReader(text)).Decode, -1) },
	"yaml":       func(text string) error { return values(yaml.NewDecoder(strings.NewReader(text)).Decode, 1) },
	"yaml-docs":  func(text string) error { return values(yaml.NewDecoder(strings.NewReader(text)).Decode, -1) },
	"csv": func(text string) error {
		_, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		return err
	},
	"junit":    parseJUnit,
	"markdown": parseMarkdown,
	"html":     parseHTML,
}

// values decodes n values, or any number of them for -1.
func values(decode func(any) error, n int) error {
	found := 0
	for {
		var v any
		err := decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if _, text := v.(string); text {
			return fmt.Errorf("document %d is plain text: %.80q", found+1, v)
		}
		found++
	}
	if found == 0 || n >= 0 && found != n {
		return fmt.Errorf("%d documents", found)
	}
	return nil
}

func parseJUnit(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	var suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Tests   int      `xml:"tests,attr"`
		Suites  []struct {
			Cases []struct{} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := d.Decode(&suites); err != nil {
		return err
	}
	cases := 0
	for _, s := range suites.Suites {
		cases += len(s.Cases)
	}
	if cases != suites.Tests {
		return fmt.Errorf("%d cases, but tests=%d", cases, suites.Tests)
	}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if c, is := token.(xml.CharData); !is || strings.TrimSpace(string(c)) != "" {
			return fmt.Errorf("%v follows the document", token)
		}
	}
}

// parseMarkdown reads one table.
func parseMarkdown(text string) error {
	width := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		cells := strings.Count(line, "|") - strings.Count(line, `\|`)
		if width == 0 {
			width = cells
		}
		if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || cells != width {
			return fmt.Errorf("not a row of the table: %q", line)
		}
	}
	if width == 0 {
		return errors.New("no table")
	}
	return nil
}

func parseHTML(text string) error {
	if !strings.HasPrefix(text, "<!DOCTYPE html>") && !strings.HasPrefix(text, "<!doctype html>") {
		return fmt.Errorf("no HTML document: %.80q", text)
	}
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		if z.Next() == html.ErrorToken {
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		}
	}
}

// parsed is the command `parsed FORMAT FILE` of scripts: the file, such as stdout, is one document of the format and nothing else.
func parsed(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || parsers[args[0]] == nil || neg {
		ts.Fatalf("usage: parsed FORMAT FILE")
	}
	if err := parsers[args[0]](ts.ReadFile(args[1])); err != nil {
		ts.Fatalf("%s is not %s: %v\n%s", args[1], args[0], err, ts.ReadFile(args[1]))
	}
}

// inClusters are formats of commands that need a cluster: end-to-end tests parse them.
var inClusters = []string{"cleanup preview json", "preflight json"}

// A script parses each format that a command offers, from its standard output.
func TestEveryFormatIsParsed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	parsed := map[string]bool{} // command and format
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(strings.TrimPrefix(line, "! "))
			switch {
			case len(fields) > 2 && fields[0] == "exec" && fields[1] == "ephor":
				words = fields[2:]
			case len(fields) == 3 && fields[0] == "parsed" && fields[2] == "stdout":
				for _, flag := range []string{"-o", "--output", "--output-format"} {
					if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
						parsed[words[0]+" "+words[i+1]], parsed[words[0]+" "+words[1]+" "+words[i+1]] = true, true
					}
				}
			}
		}
	}
	found := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, flag := range []string{"output", "output-format"} {
			formats, ok := cmd.GetFlagCompletionFunc(flag)
			if !ok {
				continue
			}
			words, _ := formats(cmd, nil, "")
			for _, format := range words {
				_, name, _ := strings.Cut(cmd.CommandPath()+" "+format, " ")
				if format == "table" || slices.Contains(inClusters, name) {
					continue
				}
				if found++; !parsed[name] {
					t.Errorf("no script parses what `ephor %s -o %s` prints", strings.TrimSuffix(name, " "+format), format)
				}
			}
		}
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(NewRoot())
	if found < 20 {
		t.Errorf("only %d formats were found", found)
	}
}
