package admission

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// droppedAudits counts the requests whose audit was dropped.
type droppedAudits struct {
	unobserved
	n *int
}

func (d droppedAudits) AuditDropped() { *d.n++ }

// T24: the audits that wait, and those that are evaluated, are bounded in bytes. Memory is reserved until an audit has ended. Drops are counted.
func TestT24AuditsAreBoundedInBytes(t *testing.T) {
	const mib = 1 << 20
	srv, _ := setup(t, fakeCluster{}, nil)
	dropped := 0
	srv.Observer = droppedAudits{n: &dropped}
	object := `{"data":{"a":"` + strings.Repeat("x", mib) + `"}}`
	large := func() audit {
		doc := value.FromJSON(object)
		if _, err := doc.Map(); err != nil {
			t.Fatal(err)
		}
		return audit{ctx: t.Context(), req: &policy.Request{Review: policy.Review{Object: doc}}, body: len(object)}
	}
	a := newAuditor(srv, 1, 1000) // not started yet
	for range 450 {
		a.add(large())
	}
	held := 0
	for range len(a.queue) {
		job := <-a.queue
		held += len(job.req.Object.Text())
		a.queue <- job
	}
	if held > auditBytes || held < auditBytes/2 || len(a.queue)+dropped != 450 {
		t.Errorf("%d audits of 1 MiB wait with %d MiB, and %d are dropped", len(a.queue), held/mib, dropped)
	}
	entered, leave := make(chan bool), make(chan bool)
	srv.Report = func(*policy.Request, []policy.Result, bool) { entered <- true; <-leave }
	for len(a.queue) > 1 {
		a.room.Release((<-a.queue).weight)
	}
	(<-a.queue).req.DryRun = false
	a.room.Release(int64(len(object)))
	job := large()
	job.results = []policy.Result{{}}
	a.add(job)
	a.start()
	<-entered
	if a.room.TryAcquire(auditBytes) {
		t.Error("nothing is reserved for an audit that is being evaluated")
	}
	leave <- true
	a.stop(t.Context())
	if !a.room.TryAcquire(auditBytes) {
		t.Error("memory is still reserved after all audits")
	}
	a.room.Release(auditBytes)
	for _, body := range []int{7 << 10, 8 << 20, 2 * auditBytes} { // one may wait whatever its size
		b := newAuditor(srv, 1, 1000)
		if b.add(audit{body: body}); len(b.queue) != 1 {
			t.Errorf("an audit of %d bytes does not wait", body)
		}
	}
	full := newAuditor(srv, 1, 1000)
	for range 800 {
		full.add(audit{body: 7 << 10})
	}
	if len(full.queue) != 800 {
		t.Errorf("of 800 audits of ordinary Pods %d wait", len(full.queue))
	}
}
