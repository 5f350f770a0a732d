package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// celRecording is the recorded result of Kyverno's command line for one folder with policies in CEL.
type celRecording struct {
	recording
	Error string `json:"error"` // the text after `Error: `; empty if the run completed
}

// aspect is the part of an answer that differs from the recorded one.
type aspect string

const (
	aspectStatus     aspect = "status" // an unexpected or missing result differs in its status
	aspectMessage    aspect = "message"
	aspectProperties aspect = "properties"
	aspectObject     aspect = "object"
	aspectEnd        aspect = "end" // how the run ended: the exit code, or the policy named in the error
)

// deviation is one answer that differs from the recorded one.
type deviation struct {
	aspect aspect
	about  string // the key of a result or an object
	text   string // both answers
}

func (d deviation) String() string { return fmt.Sprintf("%s: %s\n%s", d.aspect, d.about, d.text) }

// celVerdict is the result for one folder.
type celVerdict struct {
	name              string
	run               bool
	missing           []string // features
	results, messages int      // number of compared ones
	objects           int      // number of compared ones
	deviations        []deviation
	stderr            string
}

// celFiles are the files that a folder may have, with the flags that read them.
var celFiles = []struct{ name, flag string }{
	{"exceptions.yaml", "--exception"}, {"values.yaml", "-f"}, {"userinfo.yaml", "-u"}, {"context.yaml", "--context-file"},
}

// runCEL runs one folder of recordings. It does not compare results of policies whose kind Ephor does not support yet.
func runCEL(dir string) (celVerdict, error) {
	var want celRecording
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil {
		return celVerdict{}, err
	}
	policyFile := filepath.Join(dir, "policy.yaml")
	policies, missing := inspect([]string{policyFile})
	v := celVerdict{missing: missing.features()}
	if len(policies) == len(missing) && len(missing) > 0 {
		return v, nil
	}
	v.run = true
	out, err := os.MkdirTemp("", "ephor-objects-")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(out)
	args := []string{policyFile, "--resource", filepath.Join(dir, "resources.yaml"), "-o", out}
	for _, f := range celFiles {
		if path := filepath.Join(dir, f.name); exists(path) {
			args = append(args, f.flag, path)
		}
	}
	got, err := apply(args...)
	if err != nil {
		return v, err
	}
	v.stderr = got.stderr
	v.compare(missing.without(want.Results), missing.without(got.results))
	if len(missing) == 0 {
		v.objects = len(want.Objects)
		given, err := writtenObjects(filepath.Join(dir, "resources.yaml"))
		if err != nil {
			return v, err
		}
		for _, text := range objectDifference(want.Objects, out, given) {
			about, rest, _ := strings.Cut(text, "\n")
			v.deviations = append(v.deviations, deviation{aspectObject, about, rest})
		}
		v.end(want, got)
	}
	return v, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// without omits the results of policies that need a missing feature.
func (n needs) without(list []result) []result {
	return slices.DeleteFunc(slices.Clone(list), func(r result) bool {
		_, lacks := n[r.Policy[strings.LastIndexByte(r.Policy, '/')+1:]]
		return lacks
	})
}

// compare compares two lists of results as multisets. It compares a message if the status is the same and the recording has
// one, and properties if status and message are the same.
func (v *celVerdict) compare(want, got []result) {
	w, g := byKey(want), byKey(got)
	keys := maps.Clone(w)
	maps.Copy(keys, g)
	v.results += len(want)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		ws, gs := w[k], g[k]
		for i := range max(len(ws), len(gs)) {
			switch {
			case i >= len(gs):
				v.deviate(aspectStatus, k, ws[i].String(), "no result")
			case i >= len(ws):
				v.deviate(aspectStatus, k, "no result", gs[i].String())
			case ws[i].Result != gs[i].Result:
				v.deviate(aspectStatus, k, ws[i].String(), gs[i].String())
			default:
				v.compareTexts(k, ws[i], gs[i])
			}
		}
	}
}

func (v *celVerdict) compareTexts(key string, want, got result) {
	if want.Message != nil {
		v.messages++
		if want.message() != got.message() {
			v.deviate(aspectMessage, key, want.String(), got.String())
			return
		}
	}
	if !maps.Equal(want.Properties, got.Properties) {
		v.deviate(aspectProperties, key, fmt.Sprint(want.Properties), fmt.Sprint(got.Properties))
	}
}

func (v *celVerdict) deviate(a aspect, about, want, got string) {
	v.deviations = append(v.deviations, deviation{a, about, "    want " + want + "\n    got  " + got})
}

// end compares how the runs ended. The text of an error is Kyverno's own and is not compared; the policy that it names is.
func (v *celVerdict) end(want celRecording, got applied) {
	if got.exitCode != want.ExitCode {
		v.deviate(aspectEnd, "exit code", fmt.Sprint(want.ExitCode, " ", want.Error), fmt.Sprint(got.exitCode, " ", got.stderr))
		return
	}
	_, rest, named := strings.Cut(want.Error, "failed to compile policy ")
	if name, _, _ := strings.Cut(rest, " "); named && !strings.Contains(got.stderr, name) {
		v.deviate(aspectEnd, "error", want.Error, got.stderr)
	}
}
