package scan

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
)

// seed is the seed of all hashes of this process.
var seed = maphash.MakeSeed()

// metaHash returns a hash of the fields by which a metadata watch shows a change of content: the generation, which the API server raises
// with the spec, or for kinds without one the resource version, which every write raises.
func metaHash(version string, generation int64, labels, annotations map[string]string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	if generation > 0 {
		version = "g" + strconv.FormatInt(generation, 10)
	}
	text := func(t string) { _, _ = h.WriteString(strconv.Itoa(len(t)) + ":" + t) }
	text(version)
	for _, m := range []map[string]string{labels, annotations} {
		text(strconv.Itoa(len(m)))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			text(k)
			text(m[k])
		}
	}
	return h.Sum64()
}
