package imageverify

import "github.com/ephor-dev/ephor/internal/imageref"

// target is one image of an object at work.
type target struct {
	imageref.Image
	// known is the digest of the reference, or what its tag stands for in this review; empty until it was asked for.
	known string
	// verdict is what the entries together say, to be recorded; empty where none of them verifies the image.
	verdict string
}

func targets(images []imageref.Image) []target {
	out := make([]target, len(images))
	for i := range images {
		out[i] = target{Image: images[i], known: images[i].Digest}
	}
	return out
}

// record adds the verdict of one more entry: a failure stays, and a verification says more than a skip.
func (t *target) record(verdict string) { t.verdict = stronger(t.verdict, verdict) }

func stronger(old, verdict string) string {
	if old == recordFail || old == recordPass && verdict == recordSkip {
		return old
	}
	return verdict
}
