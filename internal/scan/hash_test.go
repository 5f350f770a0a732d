package scan

import "testing"

// A status alone does not change the hash if the kind has a generation; without one, every new version does.
func TestMetaHash(t *testing.T) {
	labels, none := map[string]string{"a": "b"}, map[string]string(nil)
	base := metaHash("1", 3, labels, none)
	for name, c := range map[string]struct {
		got  uint64
		same bool
	}{
		"a status":              {metaHash("2", 3, labels, none), true},
		"a spec":                {metaHash("2", 4, labels, none), false},
		"a label":               {metaHash("2", 3, map[string]string{"a": "c"}, none), false},
		"labels as annotations": {metaHash("2", 3, none, labels), false},
	} {
		if (c.got == base) != c.same {
			t.Errorf("%s: seen as the same: %v", name, !c.same)
		}
	}
	if metaHash("1", 0, labels, none) == metaHash("2", 0, labels, none) {
		t.Error("without a generation, a new version does not change the hash")
	}
}
