package status

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	policystatus "ephor.invalid/ephor/internal/status"
)

// refusing is a client that refuses the first writes of statuses.
type refusing struct {
	client.Client
	left *int
}

func (c refusing) Status() client.SubResourceWriter {
	return refusingWriter{c.Client.Status(), c.left}
}

type refusingWriter struct {
	client.SubResourceWriter
	left *int
}

func (w refusingWriter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if *w.left--; *w.left >= 0 {
		return errors.New("no right")
	}
	return w.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// The reports are read once in a turn, although the status of an exception cannot be written for a while.
func TestReportsAreReadOnceForAllExceptions(t *testing.T) {
	c, writes := counted(t)
	now := time.Date(2026, 1, 31, 12, 1, 0, 0, time.UTC)
	if mine, _, _ := policystatus.Turn(now, true); !mine {
		now = now.Add(policystatus.ExceptionTurn)
	}
	kind := schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	reports := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{kind: "PolicyReportList"})
	snapshot := catalog.New()
	snapshot.SetException(used)
	refused := 3
	o := &ExceptionObjects{
		Client: refusing{c, &refused}, Reader: c, Reports: reports, Kinds: []schema.GroupVersionResource{kind}, Snapshot: snapshot.Snapshot, Now: func() time.Time { return now },
	}
	for try := range 6 {
		if again, err := o.once(t.Context()); (err != nil) != (try < 3) || again <= 0 {
			t.Errorf("try %d: again in %v, %v", try, again, err)
		}
		now = now.Add(time.Second)
	}
	if n := len(reports.Actions()); n != 1 || *writes != 1 {
		t.Errorf("the reports were read %d times, and %d statuses written", n, *writes)
	}
	now = now.Add(2 * policystatus.ExceptionTurn)
	if _, err := o.once(t.Context()); err != nil || len(reports.Actions()) != 2 {
		t.Errorf("the next turn: the reports were read %d times, %v", len(reports.Actions()), err)
	}
}

// What was counted for an exception is not written to another one that has its name now.
func TestObjectsOfAReplacedException(t *testing.T) {
	c, writes := counted(t)
	now := time.Date(2026, 1, 31, 12, 1, 0, 0, time.UTC)
	if mine, _, _ := policystatus.Turn(now, true); !mine {
		now = now.Add(policystatus.ExceptionTurn)
	}
	earlier := *used
	earlier.UID = "uid-before"
	snapshot := catalog.New()
	snapshot.SetException(&earlier)
	o := &ExceptionObjects{Client: c, Reader: c, Snapshot: snapshot.Snapshot, Now: func() time.Time { return now }}
	if _, err := o.once(t.Context()); err != nil || *writes != 0 {
		t.Errorf("%d statuses were written, %v", *writes, err)
	}
}
