package engine

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ephor-dev/ephor/internal/policy"
)

// denialText is the message of a refused request (language reference §3.5): a YAML map policy → rule → message of
// every result that is neither pass nor skip.
func denialText(req *policy.Request, results []policy.Result) string {
	byPolicy := map[string]map[string]string{}
	for i := range results {
		r := &results[i]
		if r.Status == policy.StatusPass || r.Status == policy.StatusSkip {
			continue
		}
		rules := byPolicy[r.Program.Name]
		if rules == nil {
			rules = map[string]string{}
			byPolicy[r.Program.Name] = rules
		}
		rules[r.Rule.Name] = r.Message
	}
	var b strings.Builder
	b.WriteString("\n\nresource " + req.GVK.Kind + "/" + req.Namespace + "/" + req.Name + " was blocked due to the following policies \n\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	_ = enc.Encode(byPolicy) // a map of strings cannot fail to encode
	_ = enc.Close()
	return b.String()
}
