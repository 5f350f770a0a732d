package report

import (
	"maps"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/value"
)

// MaxTexts bounds the messages and properties of the results in one object in bytes: the API server accepts objects of at most 1.5 MB.
const MaxTexts = 512 << 10

// longText is the length to which messages and properties are shortened if there are too many long ones, in bytes.
const longText = 500

// Bound shortens long messages and properties if there are too many of them. It changes the results, but not their maps of properties, which
// others may share.
func Bound(results []policyreport.Result) {
	total := 0
	for i := range results {
		total += len(results[i].Message)
		for _, text := range results[i].Properties {
			total += len(text)
		}
	}
	if total <= MaxTexts {
		return
	}
	for i := range results {
		r := &results[i]
		r.Message = value.Clip(r.Message, longText)
		shared := true
		for key, text := range r.Properties {
			if len(text) <= longText {
				continue
			}
			if shared {
				r.Properties, shared = maps.Clone(r.Properties), false
			}
			r.Properties[key] = value.Clip(text, longText)
		}
	}
}
