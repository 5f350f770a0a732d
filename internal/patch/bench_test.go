package patch

import (
	"os"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

func benchPod(b *testing.B) any {
	raw, err := os.ReadFile("../value/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func BenchmarkOverlay(b *testing.B) {
	pod := benchPod(b)
	for name, patch := range map[string]string{
		"label":      `{"metadata":{"labels":{"+(team)":"none"}}}`,
		"containers": `{"spec":{"containers":[{"(name)":"*","securityContext":{"+(allowPrivilegeEscalation)":false}}]}}`,
		"unmet":      `{"metadata":{"(namespace)":"nowhere","labels":{"a":"b"}}}`,
	} {
		b.Run(name, func(b *testing.B) {
			o, _ := CompileOverlay(decode(b, patch), "p")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := o.Apply(nil, pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkApplyJSON(b *testing.B) {
	pod := benchPod(b)
	ops, err := ParseJSONPatch(`[{"op":"add","path":"/metadata/labels/team","value":"x"}]`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ApplyJSON(nil, pod, ops); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff(b *testing.B) {
	pod := benchPod(b)
	o, _ := CompileOverlay(decode(b, `{"metadata":{"labels":{"team":"x"}}}`), "p")
	changed, _ := o.Apply(nil, pod)
	b.ReportAllocs()
	for b.Loop() {
		if len(Diff(pod, changed)) != 1 {
			b.Fatal("no difference")
		}
	}
}

// The table of merge keys is read once, by the first merge of a process.
func BenchmarkMergeKeys(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if len(parseMergeKeys(mergeKeysText)) < 100 {
			b.Fatal("kinds are missing")
		}
	}
}
