package findings

import (
	"path/filepath"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/lint"
)

// sarif is the findings as a log of the Static Analysis Results Interchange Format 2.1.0, which code hosts show beside
// the lines of a change. version is that of this program.
func sarif(findings []lint.Finding, version string) any {
	rules, index := []any{}, map[string]int64{}
	rule := func(name, doc, level string) {
		index[name] = int64(len(rules))
		rules = append(rules, map[string]any{
			"id":                   name,
			"shortDescription":     map[string]any{"text": name},
			"fullDescription":      map[string]any{"text": doc},
			"help":                 map[string]any{"text": doc},
			"defaultConfiguration": map[string]any{"level": level},
		})
	}
	for _, c := range lint.Checks() {
		rule(c.Name, c.Doc, level(c))
	}
	for _, c := range diag.Codes() {
		rule(string(c.Code), c.Doc, "error")
	}
	results := []any{}
	for _, f := range findings {
		text := f.Summary
		if f.Path != "" {
			text = f.Path + ": " + text
		}
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
		place := map[string]any{"artifactLocation": map[string]any{"uri": filepath.ToSlash(f.Pos.File)}}
		if f.Pos.Line > 0 {
			region := map[string]any{"startLine": int64(f.Pos.Line)}
			if f.Pos.Column > 0 {
				region["startColumn"] = int64(f.Pos.Column)
			}
			place["region"] = region
		}
		results = append(results, map[string]any{
			"ruleId": f.Code(), "ruleIndex": index[f.Code()], "level": f.Severity.String(),
			"message":   map[string]any{"text": text},
			"locations": []any{map[string]any{"physicalLocation": place}},
		})
	}
	return map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool":    map[string]any{"driver": map[string]any{"name": "ephor", "version": version, "rules": rules}},
			"results": results,
		}},
	}
}

func level(c *lint.Check) string {
	if c == lint.Mistake {
		return "error"
	}
	return "warning"
}
