package discovery

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/policy"
)

// failing is a discovery that fails as a whole, or without the kinds of one group.
type failing struct {
	served
	err     error
	partial bool
}

func (f *failing) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	switch {
	case f.err != nil:
		return nil, nil, f.err
	case f.partial:
		return discoverytest.Broken{Served: f.served}.ServerGroupsAndResources()
	}
	return f.served.ServerGroupsAndResources()
}

// A kind that is defined while discovery fails is announced as soon as it is listed, although a search for many kinds gets the old list.
func TestRefresh(t *testing.T) {
	now, news := time.Unix(0, 0), 0
	fake := &failing{served: cluster}
	d := New(fake, func() time.Time { return now })
	d.OnChange(func() { news++ })
	count := func() (kinds int) {
		t.Helper()
		found, err := d.Find(policy.Target{Group: "*", Version: "*", Kind: "*"})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	is := func(complete, fails bool, changes int) {
		t.Helper()
		again, err := d.Refresh(t.Context())
		if got := again > incompletePause; got != complete || (err != nil) != fails || news != changes {
			t.Errorf("again in %s, %v, after %d changes; want complete %v, %d", again, err, news, complete, changes)
		}
		now = now.Add(time.Minute)
	}
	is(true, false, 0)
	before := count()
	is(true, false, 0)
	fake.err = errors.New("503")
	d.Invalidate()
	if count() != before {
		t.Error("an old list is better than none")
	}
	is(false, true, 0)
	fake.err, fake.served = nil, cluster+"x.io/v1 widgets Widget\n"
	is(true, false, 1)
	is(true, false, 1)
	if count() != before+1 {
		t.Error("the new kind is not listed")
	}
	fake.partial = true
	d.Invalidate()
	is(false, false, 1)
	fake.served += "metrics.k8s.io/v1 pods PodMetrics\n"
	fake.partial = false
	is(true, false, 2)
	fake.served += "late.io/v1 things Thing\n" // of another API server: nothing announces it
	is(true, false, 2)
	now = now.Add(maxAge)
	is(true, false, 3)
}
