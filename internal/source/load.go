package source

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/diag"
)

// Load reads everything at the paths into memory, with numbers as in policies. A mistake only affects its document (or
// path); all mistakes are returned, in the order of the input.
func Load(paths []string, o Options) ([]Object, diag.List) {
	inputs, diags := Find(paths, o)
	var out []Object
	for _, in := range inputs {
		docs, found := Open(in)
		for _, d := range docs {
			objects, moreDiags := d.Decode(o.Numbers)
			found.Add(moreDiags...)
			for i := range objects {
				objects[i].Among = in.Repository || !in.Named
			}
			out = append(out, objects...)
		}
		diags.Add(o.lenient(in, found)...)
	}
	return out, diags
}

// lenient makes warnings of mistakes about files that were only found, in repositories and directories: there may be all kinds of them. A file
// with a template of Helm has one mistake.
func (o Options) lenient(in Input, found diag.List) diag.List {
	if i := slices.IndexFunc(found, func(d diag.Diagnostic) bool { return d.Code == diag.HelmTemplate }); i >= 0 {
		found = found[i : i+1]
	}
	for i := range found {
		if in.Repository || !in.Named && (found[i].Code == diag.HelmTemplate || o.Recursive && found[i].Code == diag.NotAnObject) {
			found[i].Severity, found[i].Hint = diag.Warning, "it is passed over"
		}
	}
	return found
}

// Open reads the input and splits it into its documents.
func Open(in Input) ([]Document, diag.List) {
	text, err := in.Read()
	if err != nil {
		return nil, diag.List{{Pos: diag.Position{File: in.Name}, Summary: reason(err), Hint: missingHint(err)}}
	}
	docs := Split(in.Name, text)
	if in.Named && len(docs) == 0 {
		return nil, diag.List{{
			Severity: diag.Warning, Code: diag.Unchecked, Pos: diag.Position{File: in.Name}, Summary: "there is no YAML document in it", Hint: "nothing of it is used: is it the right file, and was it written completely?",
		}}
	}
	if !in.Named && isJSON(in.Name) {
		// Directories contain all kinds of JSON: a package.json next to the manifests is not a mistake.
		kept := docs[:0]
		for _, d := range docs {
			if strings.Contains(d.text, `"apiVersion"`) && strings.Contains(d.text, `"kind"`) {
				kept = append(kept, d)
			}
		}
		docs = kept
	}
	return docs, nil
}
