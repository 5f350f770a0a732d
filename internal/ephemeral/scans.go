package ephemeral

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/names"
)

// ScannedAnnotation is the annotation on the reports controller's Lease that lists the kinds that its scans evaluate, in
// the form of Scans.String.
const ScannedAnnotation = names.Domain + "scanned-kinds"

// maxScanned bounds the annotation in bytes. Results for kinds that exceed it are sent, which is always safe.
const maxScanned = 32 << 10

// Scans are the kinds that scans evaluate. The zero Scans has none, as if --backgroundScan were off.
type Scans struct{ kinds map[schema.GroupKind]struct{} }

// NewScans returns Scans with these kinds.
func NewScans(kinds []schema.GroupKind) Scans {
	s := Scans{make(map[schema.GroupKind]struct{}, len(kinds))}
	for _, k := range kinds {
		s.kinds[k] = struct{}{}
	}
	return s
}

// Has reports whether scans evaluate objects of the kind.
func (s Scans) Has(k schema.GroupKind) bool {
	_, has := s.kinds[k]
	return has
}

// String lists the kinds in order, such as "Deployment.apps,Pod"; it omits those that exceed the bound.
func (s Scans) String() string {
	names := make([]string, 0, len(s.kinds))
	for k := range s.kinds {
		names = append(names, k.String())
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		if out.Len()+len(name)+1 > maxScanned {
			break
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.WriteString(name)
	}
	return out.String()
}

// ParseScans parses the result of String.
func ParseScans(text string) Scans {
	if len(text) > maxScanned {
		text = text[:strings.LastIndexByte(text[:maxScanned], ',')+1]
	}
	var kinds []schema.GroupKind
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			kinds = append(kinds, schema.ParseGroupKind(name))
		}
	}
	return NewScans(kinds)
}

const (
	// fresh is the maximum age of the last renewal at which scans are relied on: renewals follow within seconds, and an
	// update of the reports controller takes less than this.
	fresh = time.Minute
	// away is the maximum age of the Lease at which results are sent: after that no controller removes them from the
	// cluster.
	away = 5 * time.Minute
)

// View is what a process knows about the reports controller from its Lease. It is safe for concurrent use; the zero View is
// that of a cluster without a reports controller.
type View struct{ last atomic.Pointer[sight] }

type sight struct {
	renewed time.Time // by the clock of the Lease's holder
	alive   time.Time // by our clock
	text    string
	scans   Scans
}

// Saw records the state of the Lease at the time now: when it was last renewed, and its annotation.
func (v *View) Saw(now, renewed time.Time, text string) {
	before := v.last.Load()
	next := &sight{renewed: renewed, alive: now, text: text}
	switch {
	case before == nil:
		if renewed.Before(now) { // its holder may have ended long ago
			next.alive = renewed
		}
	case renewed.Equal(before.renewed):
		next.alive = before.alive
	}
	if before != nil && before.text == text {
		next.scans = before.scans
	} else {
		next.scans = ParseScans(text)
	}
	v.last.Store(next)
}

// Gone records that there is no Lease.
func (v *View) Gone() { v.last.Store(nil) }

// At returns what is known at the time now: which kinds are scanned, and whether a controller merges results. Scans whose
// controller has not renewed the Lease for a while are not relied on.
func (v *View) At(now time.Time) (s Scans, there bool) {
	last := v.last.Load()
	if last == nil {
		return Scans{}, false
	}
	switch age := now.Sub(last.alive); {
	case age > away:
		return Scans{}, false
	case age > fresh:
		return Scans{}, true
	}
	return last.scans, true
}
