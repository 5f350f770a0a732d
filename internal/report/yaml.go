package report

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v2"
)

// yamlEntries writes the entries in parallel, chunk by chunk: a general encoder would take longer than the evaluation.
func (r *Report) yamlEntries(seconds int64) [][]byte {
	const chunk = 256
	out := make([][]byte, (len(r.Entries)+chunk-1)/chunk)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(out)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := yamlWriter{known: map[yamlPlace]string{}}
			for i := range next {
				part := r.Entries[i*chunk : min((i+1)*chunk, len(r.Entries))]
				w.out = make([]byte, 0, jsonSpacePerEntry*len(part))
				for _, e := range part {
					w.entry(e, seconds)
				}
				out[i] = w.out
			}
		}()
	}
	for i := range out {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

// yamlWriter writes entries of one fixed shape, byte for byte as the encoder would write the map that result returns. Only texts that
// need quoting or folding go through the encoder, each once, since messages repeat.
type yamlWriter struct {
	out   []byte
	known map[yamlPlace]string
}

// yamlPlace is a text with its position: the column decides where the text is folded.
type yamlPlace struct {
	parent, key, text string
}

// maxKnown bounds the number of remembered texts, in case texts do not repeat.
const maxKnown = 4096

func (w *yamlWriter) entry(e *Entry, seconds int64) {
	first := len(w.out)
	s := e.Program.Settings
	w.field("category", s.Category)
	w.field("message", e.ReportMessage())
	w.line("  ", "", "policy", e.PolicyName())
	w.properties(e.ReportProperties())
	w.resource(e.Resource)
	w.field("result", e.Status.String())
	w.field("rule", e.RuleName())
	if s.Scored {
		w.out = append(w.out, "  scored: true\n"...)
	}
	w.field("severity", s.Severity)
	w.field("source", SourceOf(e.Program))
	w.out = append(w.out, "  timestamp:\n    nanos: 0\n    seconds: "...)
	w.out = append(strconv.AppendInt(w.out, seconds, 10), '\n')
	w.out[first] = '-'
}

// field writes a field of the entry unless it is empty.
func (w *yamlWriter) field(key, text string) {
	if text != "" {
		w.line("  ", "", key, text)
	}
}

func (w *yamlWriter) properties(props map[string]string) {
	w.out = append(w.out, "  properties:\n"...)
	for _, k := range slices.Sorted(maps.Keys(props)) {
		w.line("    ", "properties", k, props[k])
	}
}

func (w *yamlWriter) resource(r *Resource) {
	w.out = append(w.out, "  resources:\n"...)
	first := len(w.out)
	for _, f := range r.fields() {
		if f.text != "" {
			w.line("    ", "resources", f.key, f.text)
		}
	}
	if len(w.out) == first { // a document
		w.out = append(w.out, "  - {}\n"...)
	}
	w.out[first+2] = '-'
}

func (w *yamlWriter) line(indent, parent, key, text string) {
	w.out = append(w.out, indent...)
	if plainText(key) && plainText(text) {
		w.out = append(w.out, key...)
		w.out = append(w.out, ": "...)
		w.out = append(w.out, text...)
		w.out = append(w.out, '\n')
		return
	}
	place := yamlPlace{parent, key, text}
	encoded, ok := w.known[place]
	if !ok {
		encoded = place.encode()
		if len(w.known) < maxKnown {
			w.known[place] = encoded
		}
	}
	w.out = append(w.out, encoded...)
}

// encode lets the encoder write `key: text` at its position and returns the text from its output.
func (p yamlPlace) encode() string {
	entry := yaml.MapSlice{{Key: p.key, Value: p.text}}
	if p.parent != "" {
		entry = yaml.MapSlice{{Key: p.parent, Value: entry}}
	}
	b, err := yaml.Marshal([]yaml.MapSlice{entry})
	if err != nil { // every text has a YAML form
		return strconv.Quote(p.key) + ": " + strconv.Quote(p.text) + "\n"
	}
	s := strings.TrimPrefix(string(b), "- ")
	if p.parent != "" {
		_, s, _ = strings.Cut(s, "\n")
		s = strings.TrimPrefix(s, "    ")
	}
	return s
}

// plainText reports whether the text needs no quotes: a short word or two without another YAML meaning.
func plainText(s string) bool {
	if s == "" || len(s) > 50 {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i == 0:
			return false
		case c >= '0' && c <= '9', c == '_', c == '/', c == '.', c == '-':
		case c == ' ' && s[i-1] != ' ' && i < len(s)-1:
		default:
			return false
		}
	}
	if len(s) > 5 {
		return true
	}
	switch strings.ToLower(s) {
	case "y", "yes", "n", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// sorted orders the keys of a map.
func sorted(m map[string]any) yaml.MapSlice {
	out := make(yaml.MapSlice, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, yaml.MapItem{Key: k, Value: m[k]})
	}
	return out
}
