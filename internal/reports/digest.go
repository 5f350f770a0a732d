package reports

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/report"
)

// seed is the seed for the digests in this process.
var seed = maphash.MakeSeed()

// part is the content of a report for one policy: the number of the policy in the upper bits, a digest of its results in the lower ones.
// It is small because there is one for each policy and resource of the cluster.
type part uint64

const digestBits = 44

func (p part) policy() uint64 { return uint64(p) >> digestBits }

// numbers assigns numbers to policies, which stay valid as long as the process runs.
type numbers struct {
	of  map[report.ID]uint64
	ids map[uint64]report.ID
}

// number returns the policy's number.
func (n *numbers) number(id report.ID) uint64 {
	if have, ok := n.of[id]; ok {
		return have
	}
	number := uint64(len(n.of)+1) % (1 << (64 - digestBits))
	n.of[id], n.ids[number] = number, id
	return number
}

// only returns the parts of the given policies; nil for all.
func (n *numbers) only(parts []part, policies map[report.ID]bool) []part {
	if policies == nil {
		return parts
	}
	var out []part
	for _, p := range parts {
		if policies[n.ids[p.policy()]] {
			out = append(out, p)
		}
	}
	return out
}

// parts returns the sorted parts of the results, one for each policy, without their times. base is the digest of the resource.
func (n *numbers) parts(base *report.Resource, results []policyreport.Result) []part {
	digests := digestsOf(base, results)
	out := make([]part, 0, len(digests))
	for id, d := range digests {
		out = append(out, part(n.number(id)<<digestBits|d>>(64-digestBits)))
	}
	slices.Sort(out)
	return out
}

// same reports whether two lists of results are equal except for their times. It gives policies no numbers: other clients may make them up.
func same(base *report.Resource, a, b []policyreport.Result) bool {
	return maps.Equal(digestsOf(base, a), digestsOf(base, b))
}

// digestsOf returns a digest of the results of each policy, without their times.
func digestsOf(base *report.Resource, results []policyreport.Result) map[report.ID]uint64 {
	digests := map[report.ID]*digest{}
	for i := range results {
		id := report.RuleOf(&results[i]).ID()
		d := digests[id]
		if d == nil {
			d = newDigest()
			d.text(base.APIVersion, base.Kind, base.Namespace, base.Name, base.UID)
			digests[id] = d
		}
		d.result(&results[i])
	}
	out := make(map[report.ID]uint64, len(digests))
	for id, d := range digests {
		out[id] = d.Sum64()
	}
	return out
}

// digest computes a hash of the values that are added.
type digest struct{ maphash.Hash }

func newDigest() *digest {
	d := &digest{}
	d.SetSeed(seed)
	return d
}

func (d *digest) text(all ...string) {
	for _, t := range all { // the length separates adjacent texts
		_, _ = d.WriteString(strconv.Itoa(len(t)))
		_ = d.WriteByte(':')
		_, _ = d.WriteString(t)
	}
}

// result adds everything but the time.
func (d *digest) result(r *policyreport.Result) {
	d.text(r.Source, r.Policy, r.Rule, r.Message, string(r.Result), strconv.FormatBool(r.Scored), r.Category, string(r.Severity))
	d.text(strconv.Itoa(len(r.Properties)), strconv.Itoa(len(r.Resources)))
	for _, k := range slices.Sorted(maps.Keys(r.Properties)) {
		d.text(k, r.Properties[k])
	}
}
