package report

import (
	"io"

	"go.yaml.in/yaml/v2"

	"ephor.invalid/ephor/internal/value"
)

// WriteYAML prints the reports with the keys sorted and an empty line after each; seconds is the time of the results.
func WriteYAML(w io.Writer, reports []Report, seconds int64) error {
	for i := range reports {
		if err := reports[i].yaml(w, seconds); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON prints each report on one line, with an empty line after each. Unlike in YAML, no line separates them, since it would not be JSON.
func WriteJSON(w io.Writer, reports []Report, seconds int64) error {
	for i := range reports {
		r := &reports[i]
		out := make([]byte, 0, 200+jsonSpacePerEntry*len(r.Entries))
		out = append(r.appendJSON(out, seconds), "\n\n"...)
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) metadata() map[string]any {
	m := map[string]any{"name": r.Name}
	if r.Namespace != "" {
		m["namespace"] = r.Namespace
	}
	return m
}

func (r *Report) summary() map[string]any {
	s := r.Summary()
	return map[string]any{
		"pass": int64(s.Pass), "fail": int64(s.Fail), "warn": int64(s.Warn), "error": int64(s.Error), "skip": int64(s.Skip),
	}
}

// result returns the entry in the form of reports. The YAML writer (yaml.go) writes the same without building the maps.
func (e *Entry) result(seconds int64) map[string]any {
	res := map[string]any{}
	for _, f := range e.Resource.fields() {
		if f.text != "" {
			res[f.key] = f.text
		}
	}
	props := map[string]any{}
	for k, v := range e.ReportProperties() {
		props[k] = v
	}
	m := map[string]any{
		"policy":     e.PolicyName(),
		"properties": props,
		"resources":  []any{res},
		"result":     e.Status.String(),
		"source":     SourceOf(e.Program),
		"timestamp":  map[string]any{"nanos": int64(0), "seconds": seconds},
	}
	set := func(k, v string) {
		if v != "" {
			m[k] = v
		}
	}
	set("message", e.ReportMessage())
	set("rule", e.RuleName())
	set("category", e.Program.Settings.Category)
	set("severity", e.Program.Settings.Severity)
	if e.Program.Settings.Scored {
		m["scored"] = true
	}
	return m
}

// appendJSON writes the fields in Kyverno's order: kind, apiVersion, metadata, source, summary, results.
func (r *Report) appendJSON(out []byte, seconds int64) []byte {
	out = append(out, `{"kind":`...)
	out = value.AppendJSON(out, r.Kind)
	out = append(out, `,"apiVersion":`...)
	out = value.AppendJSON(out, apiVersion)
	out = append(out, `,"metadata":`...)
	out = value.AppendJSON(out, r.metadata())
	out = append(out, `,"source":"","summary":`...)
	out = value.AppendJSON(out, r.summary())
	out = append(out, `,"results":[`...)
	for i, e := range r.Entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = value.AppendJSON(out, e.result(seconds))
	}
	return append(out, "]}"...)
}

func (r *Report) yaml(w io.Writer, seconds int64) error {
	head := yaml.MapSlice{
		{Key: "apiVersion", Value: apiVersion}, {Key: "kind", Value: r.Kind}, {Key: "metadata", Value: sorted(r.metadata())},
	}
	tail := yaml.MapSlice{{Key: "source", Value: ""}, {Key: "summary", Value: sorted(r.summary())}}
	begin, err := yaml.Marshal(head)
	if err != nil {
		return err
	}
	end, err := yaml.Marshal(tail)
	if err != nil {
		return err
	}
	if r.Kind == kindNamespaced {
		begin = append([]byte(separator), begin...)
	}
	key := "results:\n"
	if len(r.Entries) == 0 {
		key = "results: []\n"
	}
	parts := append([][]byte{begin, []byte(key)}, r.yamlEntries(seconds)...)
	for _, p := range append(parts, end, []byte(emptyLine)) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}
