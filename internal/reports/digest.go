package reports

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
)

// seed makes the digests of this process.
var seed = maphash.MakeSeed()

// digest stands for what a report says, and of what: everything but the times of its results.
func digest(owner metav1.OwnerReference, c *policyreport.ReportContent) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	text := func(all ...string) {
		for _, t := range all { // lengths keep neighbours apart
			_, _ = h.WriteString(strconv.Itoa(len(t)))
			_ = h.WriteByte(':')
			_, _ = h.WriteString(t)
		}
	}
	number := func(all ...int) {
		for _, n := range all {
			text(strconv.Itoa(n))
		}
	}
	text(owner.APIVersion, owner.Kind, owner.Name, string(owner.UID))
	if s := c.Scope; s != nil {
		text(s.APIVersion, s.Kind, s.Namespace, s.Name, string(s.UID))
	}
	number(c.Summary.Pass, c.Summary.Fail, c.Summary.Warn, c.Summary.Error, c.Summary.Skip, len(c.Results))
	for i := range c.Results {
		r := &c.Results[i]
		text(r.Source, r.Policy, r.Rule, r.Message, string(r.Result), strconv.FormatBool(r.Scored), r.Category, string(r.Severity))
		number(len(r.Properties), len(r.Resources))
		for _, k := range slices.Sorted(maps.Keys(r.Properties)) {
			text(k, r.Properties[k])
		}
	}
	return h.Sum64()
}
