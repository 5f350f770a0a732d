package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// recording is the recorded result of Kyverno's command line for one folder.
type recording struct {
	ExitCode int            `json:"exitCode"`
	Results  []result       `json:"results"`
	Objects  map[string]any `json:"objects"` // by kind/namespace/name
}

// differential runs one folder of recordings.
func differential(dir string) verdict {
	policy, resources := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "resources.yaml")
	var want recording
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil {
		return verdict{failures: []string{err.Error()}}
	}
	policies, missing := inspect([]string{policy})
	v := verdict{missing: missing.features(), policies: len(policies), run: len(policies) - len(missing)}
	if v.run <= 0 {
		return v
	}
	out, err := os.MkdirTemp("", "ephor-objects-")
	if err != nil {
		return verdict{failures: []string{err.Error()}}
	}
	defer os.RemoveAll(out)
	got, err := apply(policy, "--resource", resources, "-o", out)
	if err != nil {
		return verdict{failures: []string{err.Error()}}
	}
	supported := func(list []result) []result {
		var out []result
		for _, r := range list {
			if _, lacks := missing[r.Policy[strings.LastIndexByte(r.Policy, '/')+1:]]; !lacks {
				out = append(out, r)
			}
		}
		return out
	}
	wanted := supported(want.Results)
	v.results = len(wanted)
	v.failures = difference(wanted, supported(got.results))
	if len(missing) == 0 {
		v.objects = len(want.Objects)
		v.failures = append(v.failures, objectDifference(want.Objects, out, nil)...)
	}
	if len(missing) == 0 && got.exitCode != want.ExitCode {
		v.failures = append(v.failures, fmt.Sprintf("exit code %d, want %d", got.exitCode, want.ExitCode))
	}
	if len(v.failures) > 0 && got.stderr != "" {
		v.failures = append(v.failures, "stderr: "+got.stderr)
	}
	return v
}

// difference compares two lists of results as multisets, message by message.
func difference(want, got []result) []string {
	w, g := byKey(want), byKey(got)
	keys := make([]string, 0, len(w))
	for k := range w {
		keys = append(keys, k)
	}
	for k := range g {
		if _, both := w[k]; !both {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	var out []string
	for _, k := range keys {
		ws, gs := w[k], g[k]
		for i := range max(len(ws), len(gs)) {
			switch {
			case i >= len(gs):
				out = append(out, fmt.Sprintf("%s\n    want %s\n    got  no result", k, ws[i]))
			case i >= len(ws):
				out = append(out, fmt.Sprintf("%s\n    want no result\n    got  %s", k, gs[i]))
			case ws[i].Result != gs[i].Result || ws[i].Message != nil && ws[i].message() != gs[i].message():
				out = append(out, fmt.Sprintf("%s\n    want %s\n    got  %s", k, ws[i], gs[i]))
			}
		}
	}
	return out
}

func byKey(list []result) map[string][]result {
	out := map[string][]result{}
	for _, r := range list {
		out[r.key()] = append(out[r.key()], r)
	}
	for _, rs := range out {
		sort.Slice(rs, func(i, j int) bool { return rs[i].String() < rs[j].String() })
	}
	return out
}

func (r result) message() string {
	if r.Message == nil {
		return ""
	}
	return *r.Message
}

func (r result) String() string { return r.Result + ": " + r.message() }
