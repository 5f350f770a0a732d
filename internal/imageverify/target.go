package imageverify

import "ephor.invalid/ephor/internal/imageref"

// target is the state of one image of an object during the evaluation.
type target struct {
	Image
	// spellings are the texts with which patterns are compared.
	spellings []string
	// verdict is the joint verdict of the entries, to be recorded; empty if no entry verifies the image.
	verdict string
}

func targets(images []imageref.Image, d imageref.Defaults) []target {
	out := make([]target, len(images))
	for i := range images {
		out[i] = target{Image: NewImage(images[i]), spellings: d.Spellings(images[i].Reference)}
	}
	return out
}

// record adds the verdict of one more entry: a failure overrides everything, and a verification overrides a skip.
func (t *target) record(verdict string) { t.verdict = stronger(t.verdict, verdict) }

func stronger(old, verdict string) string {
	if old == recordFail || old == recordPass && verdict == recordSkip {
		return old
	}
	return verdict
}
