package status

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// ExceptionUse counts the requests that exceptions exempt, and writes the counts into the status of the exceptions. Every replica writes its
// own requests; together they write a status at most once in two turns of policystatus.ExceptionTurn.
type ExceptionUse struct {
	writer *policystatus.Writer
	reader client.Reader // without a cache
	now    func() time.Time
	news   *controller.Signal

	mu     sync.Mutex
	counts map[policy.ExceptionID]*exceptionUse
	known  map[policy.ExceptionID]bool // exceptions that were used before
}

type exceptionUse struct {
	policystatus.Uses
	exception *policy.Exception
	request   string // UID of the last request: several evaluations may belong to one
}

// maxUsedRules bounds the rules that are remembered for an exception.
const maxUsedRules = 50

// NewExceptionUse returns an ExceptionUse that writes with the client.
func NewExceptionUse(c client.Client, reader client.Reader) *ExceptionUse {
	return &ExceptionUse{
		writer: &policystatus.Writer{Client: c}, reader: reader, now: time.Now, news: &controller.Signal{},
		counts: map[policy.ExceptionID]*exceptionUse{}, known: map[policy.ExceptionID]bool{},
	}
}

// Eval returns an evaluator that counts the exceptions that apply in next.
func (u *ExceptionUse) Eval(next func(context.Context, engine.Input) policy.Outcome) func(context.Context, engine.Input) policy.Outcome {
	return func(ctx context.Context, in engine.Input) policy.Outcome {
		out := next(ctx, in)
		if !in.Request.DryRun {
			for i := range out.Results {
				for _, e := range out.Results[i].Exceptions {
					u.count(e, in.Request.UID, &out.Results[i])
				}
			}
		}
		return out
	}
}

func (u *ExceptionUse) count(e *policy.Exception, request string, r *policy.Result) {
	u.mu.Lock()
	defer u.mu.Unlock()
	id := e.ID()
	x := u.counts[id]
	if x == nil {
		x = &exceptionUse{Uses: policystatus.Uses{Rules: map[string]bool{}}}
		u.counts[id] = x
		if !u.known[id] {
			u.known[id] = true
			u.news.Fire()
		}
	}
	x.exception = e
	if len(x.Rules) < maxUsedRules {
		x.Rules[r.Program.Key()+"/"+r.Rule.Name] = true
	}
	if request != "" && x.request == request {
		return
	}
	x.request, x.Last = request, u.now()
	x.Count++
}

// Row returns the row that writes the counts.
func (u *ExceptionUse) Row() controller.Row {
	return controller.Row{Name: "exception-use", Sources: []controller.Source{u.news}, Reconcile: controller.Singleton(u.once)}
}

// once writes the counts in the turn of the use. The first use of an exception is written at once.
func (u *ExceptionUse) once(ctx context.Context) (time.Duration, error) {
	now := u.now()
	mine, began, next := policystatus.Turn(now, false)
	u.mu.Lock()
	counts := u.counts
	u.counts = map[policy.ExceptionID]*exceptionUse{}
	u.mu.Unlock()
	var errs []error
	for id, x := range counts {
		written, err := u.write(ctx, x, mine, now, began)
		errs = append(errs, err)
		if !written {
			u.restore(id, x)
		}
	}
	return next.Sub(now), errors.Join(errs...)
}

func (u *ExceptionUse) write(ctx context.Context, x *exceptionUse, mine bool, now, began time.Time) (written bool, err error) {
	object, err := policystatus.StoredException(ctx, u.reader, x.exception)
	if err != nil {
		return false, err
	}
	if object == nil || string(object.GetUID()) != x.exception.UID {
		return true, nil // it was deleted, and another exception may have its name
	}
	if !mine && policystatus.HasUse(object) {
		return false, nil
	}
	return u.writer.WriteExceptionUse(ctx, object, &x.Uses, now, began)
}

// restore adds counts that were not written to the later ones.
func (u *ExceptionUse) restore(id policy.ExceptionID, x *exceptionUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	later := u.counts[id]
	if later == nil {
		u.counts[id] = x
		return
	}
	later.Count += x.Count
	maps.Copy(later.Rules, x.Rules)
}
