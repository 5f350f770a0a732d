// Package sarif writes findings as a log of the Static Analysis Results Interchange Format 2.1.0, which code hosting platforms show beside
// the lines of a change.
//
//	err := sarif.WriteFile("ephor.sarif", version, rules, results)
//
// Floor 8: imports cli/terminal and diag.
package sarif

import (
	"errors"
	"os"
	"path/filepath"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/diag"
)

// Rule describes the meaning of results of one type.
type Rule struct {
	ID, Doc string
	Level   string // error or warning
}

// Result is one finding.
type Result struct {
	Rule  string // the ID of a Rule; an undescribed Rule is described by its ID
	Level string // error or warning
	Text  string
	Pos   diag.Position
}

// Log returns the log of one run. version is the version of this program; if empty, the log contains none.
func Log(version string, rules []Rule, results []Result) map[string]any {
	described, index := []any{}, map[string]int64{}
	describe := func(r Rule) {
		if _, known := index[r.ID]; known {
			return
		}
		index[r.ID] = int64(len(described))
		described = append(described, map[string]any{
			"id":                   r.ID,
			"shortDescription":     map[string]any{"text": r.ID},
			"fullDescription":      map[string]any{"text": r.Doc},
			"help":                 map[string]any{"text": r.Doc},
			"defaultConfiguration": map[string]any{"level": r.Level},
		})
	}
	for _, r := range rules {
		describe(r)
	}
	out := []any{}
	for _, r := range results {
		describe(Rule{ID: r.Rule, Doc: r.Rule, Level: r.Level})
		place := map[string]any{"artifactLocation": map[string]any{"uri": filepath.ToSlash(r.Pos.File)}}
		if r.Pos.Line > 0 {
			region := map[string]any{"startLine": int64(r.Pos.Line)}
			if r.Pos.Column > 0 {
				region["startColumn"] = int64(r.Pos.Column)
			}
			place["region"] = region
		}
		out = append(out, map[string]any{
			"ruleId": r.Rule, "ruleIndex": index[r.Rule], "level": r.Level,
			"message":   map[string]any{"text": r.Text},
			"locations": []any{map[string]any{"physicalLocation": place}},
		})
	}
	driver := map[string]any{"name": "ephor", "rules": described}
	if version != "" {
		driver["version"] = version
	}
	return map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs":    []any{map[string]any{"tool": map[string]any{"driver": driver}, "results": out}},
	}
}

// WriteFile writes the log to a file.
func WriteFile(path, version string, rules []Rule, results []Result) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(terminal.WriteJSON(f, Log(version, rules, results)), f.Close())
}

// Finding converts a diagnostic to a result.
func Finding(rule string, d diag.Diagnostic) Result {
	text := d.Text()
	if d.Path != "" {
		text = d.Path + ": " + text
	}
	if d.Hint != "" {
		text += " (" + d.Hint + ")"
	}
	return Result{Rule: rule, Level: d.Severity.String(), Text: text, Pos: d.Pos}
}
