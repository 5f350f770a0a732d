package index

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// bucketKey is the key by which rules are filed: the kind, and the resource if some rules name resources.
type bucketKey struct {
	kind       string
	resource   schema.GroupVersionResource
	namespaced bool
}

// maxBuckets bounds the number of buckets. A cluster has some hundred kinds; the bound is for requests on the command line, which may have
// invented kinds.
const maxBuckets = 4096

// buckets are the buckets of earlier requests, by kind alone or by resource.
type buckets struct {
	byKind     cache[string, bucket]
	byResource cache[bucketKey, bucket]
}

// bucket holds the entries for one kind and resource, and the views of them.
type bucket struct {
	entries [][]ruleTarget
	views   cache[viewKey, view]
}

// bucketFor returns the bucket of the request.
func (x *Index) bucketFor(r *policy.Request) *bucket {
	if !x.byResource {
		if p := x.buckets.byKind.load(r.GVK.Kind); p != nil {
			return p
		}
		return x.buckets.byKind.add(r.GVK.Kind, maxBuckets, func() *bucket { return &bucket{entries: x.filed(r.GVK.Kind, "")} })
	}
	key := bucketKey{r.GVK.Kind, r.GVR, r.ObjectNamespace() != ""}
	if p := x.buckets.byResource.load(key); p != nil {
		return p
	}
	return x.buckets.byResource.add(key, maxBuckets, func() *bucket { return &bucket{entries: x.filed(key.kind, key.resource.Resource)} })
}

// filed returns the entries that may match a kind and a resource. If a request does not name its resource, it returns the entries for each
// resource.
func (x *Index) filed(kind, resource string) [][]ruleTarget {
	out := [][]ruleTarget{x.kinds[kind]}
	if resource != "" {
		out = append(out, x.resources[resource])
	} else {
		for _, list := range x.resources {
			out = append(out, list)
		}
	}
	return append(out, x.wild)
}

// copyFrom copies the buckets of old that a change does not affect.
func (p *buckets) copyFrom(old *buckets, changed *touched) {
	if changed.wild {
		return
	}
	p.byKind.copyFrom(&old.byKind, func(kind string) bool { return !changed.kinds[kind] })
	p.byResource.copyFrom(&old.byResource, func(k bucketKey) bool { return !changed.concerns(k) })
}
