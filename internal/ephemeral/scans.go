package ephemeral

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ScannedAnnotation is where the reports controller says on its Lease which kinds its scans evaluate, as Scans.String
// has it.
const ScannedAnnotation = "ephor.dev/scanned-kinds"

// maxScanned bounds the annotation in bytes. Results for kinds that find no room are sent, which is never wrong.
const maxScanned = 32 << 10

// Scans are the kinds that scans evaluate. The zero Scans are none, as where --backgroundScan is off.
type Scans struct{ kinds map[schema.GroupKind]struct{} }

// NewScans are scans of the kinds.
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

// String lists the kinds in order, as in "Deployment.apps,Pod"; those that find no room are left out.
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

// ParseScans reads what String wrote.
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
	// fresh is how old the last sign of life may be for scans to be relied on: they follow within seconds, and an update of
	// the reports controller takes less.
	fresh = time.Minute
	// away is the maximum age of the Lease for results to be sent: after that no controller removes them from the
	// cluster.
	away = 5 * time.Minute
)

// View is what a process knows of the reports controller from its Lease. It is safe for all goroutines; the zero View is
// that of a cluster without a reports controller.
type View struct{ last atomic.Pointer[sight] }

type sight struct {
	renewed time.Time // by the clock of the Lease's holder
	alive   time.Time // by ours
	text    string
	scans   Scans
}

// Saw takes the Lease in as it is at the time now: when it was renewed last, and its annotation.
func (v *View) Saw(now, renewed time.Time, text string) {
	before := v.last.Load()
	next := &sight{renewed: renewed, alive: now, text: text}
	switch {
	case before == nil:
		if renewed.Before(now) { // it may have been left alone long ago
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

// Gone takes in that there is no Lease.
func (v *View) Gone() { v.last.Store(nil) }

// At is what is known at the time now: which kinds are scanned, and whether a controller merges results. Scans that have
// given no sign of life for a while are not relied on.
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
