package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// queriesOf returns the queries in a file.
func queriesOf(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(file) {
	case ".json":
		return dashboardQueries(text)
	case ".yaml", ".yml":
		return ruleQueries(text)
	case ".md":
		return documentQueries(string(text)), nil
	}
	return nil, fmt.Errorf("neither a dashboard (.json), nor rules (.yaml), nor a document (.md)")
}

// dashboardQueries returns all fields `expr` of a Grafana dashboard, with Grafana's variables filled in, and a selector
// for each label_values(…) that fills one of the dashboard's own variables.
func dashboardQueries(text []byte) ([]string, error) {
	var dashboard any
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, err
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, child := range v {
				s, isText := child.(string)
				switch {
				case isText && key == "expr":
					out = append(out, grafana(s))
				case isText && key == "query":
					if m := labelValues.FindStringSubmatch(s); m != nil {
						out = append(out, fmt.Sprintf("count by (%s) (%s)", m[2], grafana(m[1])))
					}
				default:
					walk(child)
				}
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(dashboard)
	return out, nil
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.+), *([a-z_]+)\)$`)
	ownVariable = regexp.MustCompile(`\$\{?[a-zA-Z_]+\}?`)
)

// grafana fills in variables as Grafana does with everything selected.
func grafana(query string) string {
	for name, value := range map[string]string{"$__rate_interval": "1m", "$__interval": "1m", "$__range": "1h"} {
		query = strings.ReplaceAll(query, name, value)
	}
	return ownVariable.ReplaceAllString(query, ".*")
}

// ruleQueries returns the expressions in a rule file, which it validates as Prometheus does.
func ruleQueries(text []byte) ([]string, error) {
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, errs[0]
	}
	var out []string
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			out = append(out, r.Expr)
		}
	}
	return out, nil
}

// documentQueries returns the paragraphs in blocks that are marked promql.
func documentQueries(text string) []string {
	var out []string
	for _, block := range strings.Split(text, "```promql\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, q := range strings.Split(block, "\n\n") {
			if q = strings.TrimSpace(q); q != "" {
				out = append(out, q)
			}
		}
	}
	return out
}
