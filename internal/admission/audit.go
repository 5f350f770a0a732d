package admission

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
)

// auditTimeout is the time for the auditing rules of one request.
const auditTimeout = 30 * time.Second

// audit is an admitted request whose auditing rules are not evaluated yet.
type audit struct {
	ctx        context.Context // without the deadline of the request
	req        *policy.Request
	selections []policy.Selection
	stages     policy.Stage
	selects    func(*policy.Rule, policy.Action) bool // selects the remaining rules
	results    []policy.Result                        // of the rules that were evaluated before the answer
	review     *decision.Review                       // to be recorded with the results; nil for none
	body       int                                    // the length of the review, whose text the request holds
	weight     int64                                  // the reserved memory
}

const (
	// auditBytes bounds the memory of the audits that wait or are evaluated, as estimated by weigh. One may wait whatever its size.
	auditBytes = 48 << 20
	// decodedBody is the length of a review up to which the request waits with its decoded objects, which take about decodedWeight times the
	// memory of the text. Objects of a longer review wait as text, and are decoded again.
	decodedBody, decodedWeight = 16 << 10, 8
)

// weigh estimates the memory of the job, and drops decoded objects of a large review.
func (j *audit) weigh() {
	j.weight = int64(j.body)
	if j.req != nil && j.body > decodedBody {
		j.req.Object, j.req.OldObject = j.req.Object.Undecoded(), j.req.OldObject.Undecoded()
	} else {
		j.weight *= decodedWeight
	}
	for i := range j.results {
		j.weight += int64(len(j.results[i].Message))
	}
	if j.req != nil {
		j.weight += int64(j.req.Tape.Size(auditBytes))
	}
	j.weight = min(j.weight, auditBytes)
}

// auditor evaluates auditing rules after the answer: a fixed number of workers on a queue that is bounded in number and in bytes. The bytes
// of a request are reserved until its audit has ended. A full queue drops the request and counts it, since admission must not wait for
// bookkeeping.
type auditor struct {
	server  *Server
	workers int
	queue   chan audit
	room    *semaphore.Weighted // the bytes of the jobs in the queue and at the workers
	dropped atomic.Uint64
	running sync.WaitGroup
	// closing guards queue against additions after it was closed.
	closing sync.RWMutex
	closed  bool
}

func newAuditor(s *Server, workers, capacity int) *auditor {
	return &auditor{server: s, workers: workers, queue: make(chan audit, capacity), room: semaphore.NewWeighted(auditBytes)}
}

func (a *auditor) start() {
	for range a.workers {
		a.running.Go(func() {
			for job := range a.queue {
				a.evaluate(job)
				a.room.Release(job.weight)
			}
		})
	}
}

func (a *auditor) add(job audit) {
	a.closing.RLock()
	defer a.closing.RUnlock()
	if a.closed {
		a.dropped.Add(1)
		a.server.Observer.AuditDropped()
		a.unaudited(&job)
		return
	}
	if job.weigh(); a.room.TryAcquire(job.weight) {
		select {
		case a.queue <- job:
			return
		default:
			a.room.Release(job.weight)
		}
	}
	a.server.Observer.AuditDropped()
	a.unaudited(&job)
	if n := a.dropped.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th …: often enough to be noticed, too rare to flood the log
		a.server.Log.Warn("the audit queue is full: audit rules were not evaluated", "dropped", n)
	}
}

// unaudited records the review of a job that is dropped, with the results from before the answer.
func (a *auditor) unaudited(job *audit) {
	if job.review != nil {
		a.server.Record(*job.review)
	}
}

// stop lets the workers finish the queue while ctx allows.
func (a *auditor) stop(ctx context.Context) {
	a.closing.Lock()
	a.closed = true
	close(a.queue)
	a.closing.Unlock()
	done := make(chan struct{})
	go func() { a.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		a.server.Log.Warn("stopped with audits in the queue", "left", len(a.queue))
	}
}

// outcome evaluates the auditing rules of the job.
func (s *Server) outcome(ctx context.Context, job *audit) policy.Outcome {
	return s.eval(ctx, engine.Input{
		Selections: job.selections, Request: job.req, Stages: job.stages, Root: s.rootOf(job.req), Select: job.selects, Before: job.results,
		Pace: s.paceLater, PaceException: s.paceExceptionLater, // other audits wait for this worker
	})
}

func (a *auditor) evaluate(job audit) {
	defer func() {
		if v := recover(); v != nil {
			a.server.Log.Error("an audit panicked", "panic", v)
		}
	}()
	ctx, cancel := context.WithTimeout(job.ctx, auditTimeout)
	defer cancel()
	out := a.server.outcome(ctx, &job)
	a.server.Observer.Evaluated(&out)
	a.server.report(job.req, append(job.results, out.Results...), false)
	if job.review != nil {
		job.review.Results = append(slices.Clip(job.review.Results), out.Results...)
		a.server.Record(*job.review)
	}
	if job.req.DryRun {
		return // the result is counted, but there is nothing to log
	}
	for i := range out.Results {
		r := &out.Results[i]
		if r.Status == policy.StatusFail || r.Status == policy.StatusError || r.Status == policy.StatusWarn {
			logResult(ctx, a.server.Log, job.req, r)
		}
	}
}

// logResult logs a result that no response contained.
func logResult(ctx context.Context, log *slog.Logger, req *policy.Request, r *policy.Result) {
	log.LogAttrs(ctx, slog.LevelWarn, "policy violation",
		slog.String("policy", r.Program.Key()), slog.String("rule", r.Rule.Name), slog.String("status", r.Status.String()),
		slog.String("action", r.Action.String()), slog.String("operation", string(req.Operation)),
		slog.String("kind", req.GVK.Kind), slog.String("namespace", req.Namespace), slog.String("name", req.Name),
		slog.String("message", r.Message))
}
