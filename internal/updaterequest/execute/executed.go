package execute

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// ExecutedName is the ConfigMap of the record of executed work.
const ExecutedName = "ephor-executed-work"

const (
	executedKey = "digests"
	// keepExecuted is how long executed work is remembered. The admission controller repeats a creation that was not answered within seconds,
	// and after an outage of the API server once that answers again.
	keepExecuted = 10 * time.Minute
	// maxExecuted is the number of digests in memory, and maxExecutedStored that in the ConfigMap: 48 kB.
	maxExecuted, maxExecutedStored = 20_000, 4_000
	// maxNoted is the number of changed targets that are recorded for one attempt that failed for others.
	maxNoted = 100
	// executedQuiet is how long digests are collected before they are stored.
	executedQuiet = time.Second
)

// Executed is the record of the work of mutate rules that was carried out, since a patch may append to what it finds. An UpdateRequest may
// come twice: its creation is repeated when it was not answered. And two requests may lead to the same work: when the first one is carried
// out late, it finds the trigger as the second one made it. All replicas write the record, and read it when their share changes. What a
// replica did in its last second before a crash is not in it.
type Executed struct {
	// Changed makes the row of the record call Reconcile.
	Changed controller.Signal

	client    client.Client
	namespace string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex
	at      map[digest]int64 // the time of the execution, in seconds since 1970
	pending map[digest]bool  // those that are not stored
	since   time.Time        // of the first of them
}

func newExecuted(o *WorkerOptions) *Executed {
	return &Executed{client: o.Client, namespace: o.Namespace, log: o.Log, now: o.Now, at: map[digest]int64{}, pending: map[digest]bool{}}
}

// has reports whether the work was carried out.
func (x *Executed) has(d digest) bool {
	if d == (digest{}) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	at, ok := x.at[d]
	return ok && x.now().Unix()-at < int64(keepExecuted/time.Second)
}

// record records work that was carried out. Zero digests are left out.
func (x *Executed) record(all ...digest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range all {
		if d == (digest{}) {
			continue
		}
		x.at[d], x.pending[d] = x.now().Unix(), true
		if x.since.IsZero() {
			x.since = x.now()
		}
	}
	x.bound()
	if len(x.pending) > 0 {
		x.Changed.Fire()
	}
}

// bound forgets what is old, or too much.
func (x *Executed) bound() {
	if len(x.at) <= maxExecuted {
		return
	}
	forget := func(d digest) { delete(x.at, d); delete(x.pending, d) }
	for _, d := range sortedByTime(x.at)[:len(x.at)-maxExecuted*3/4] {
		forget(d)
	}
}

// sortedByTime returns digests, the oldest first.
func sortedByTime(at map[digest]int64) []digest {
	return slices.SortedFunc(maps.Keys(at), func(a, b digest) int {
		if at[a] != at[b] {
			return int(at[a] - at[b])
		}
		return slices.Compare(a[:], b[:])
	})
}

// Reconcile merges the stored record with that of this process, and stores it if there is news.
func (x *Executed) Reconcile(ctx context.Context) (again time.Duration, err error) {
	x.mu.Lock()
	early := executedQuiet - x.now().Sub(x.since)
	waits := !x.since.IsZero() && early > 0
	x.mu.Unlock()
	if waits {
		return early, nil
	}
	return 0, x.store(ctx)
}

// End waits for the end of ctx and then stores what is left.
func (x *Executed) End(ctx context.Context) {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	if err := x.store(last); err != nil {
		x.log.Info("the record of executed work is incomplete", "error", err)
	}
}

func (x *Executed) store(ctx context.Context) error {
	cm := &corev1.ConfigMap{}
	err := x.client.Get(ctx, client.ObjectKey{Namespace: x.namespace, Name: ExecutedName}, cm)
	switch {
	case apierrors.IsNotFound(err):
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: ExecutedName, Labels: map[string]string{origin.RecordLabel: origin.RecordValue}}}
	case apierrors.IsForbidden(err):
		_, unstored := x.merge(nil)
		x.stored(unstored) // each replica remembers its own work
		return nil
	case err != nil:
		return fmt.Errorf("read the ConfigMap %s: %w", ExecutedName, err)
	}
	content, unstored := x.merge(cm.BinaryData[executedKey])
	if len(unstored) == 0 {
		return nil
	}
	cm.BinaryData = map[string][]byte{executedKey: content}
	if cm.ResourceVersion == "" {
		err = x.client.Create(ctx, cm)
	} else {
		err = x.client.Update(ctx, cm)
	}
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("write the ConfigMap %s: %w", ExecutedName, err)
	}
	x.stored(unstored)
	return nil
}

// stored removes digests from those that are not stored.
func (x *Executed) stored(all map[digest]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for d := range all {
		delete(x.pending, d)
	}
	if x.since = (time.Time{}); len(x.pending) > 0 {
		x.since = x.now()
		x.Changed.Fire()
	}
}

// entry is the size of a stored digest with its time.
const entry = 4 + len(digest{})

// merge adds the stored digests to those of this process, and returns all of them as they are stored, with those that are not stored yet.
func (x *Executed) merge(content []byte) (all []byte, unstored map[digest]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now().Unix()
	for e := range slices.Chunk(content, entry) {
		if len(e) < entry {
			break // the content is damaged
		}
		// The time is that of another clock.
		if at := min(int64(binary.BigEndian.Uint32(e)), now); now-at < int64(keepExecuted/time.Second) {
			x.at[digest(e[4:])] = max(at, x.at[digest(e[4:])])
		}
	}
	maps.DeleteFunc(x.at, func(_ digest, at int64) bool { return now-at >= int64(keepExecuted/time.Second) })
	maps.DeleteFunc(x.pending, func(d digest, _ bool) bool { _, known := x.at[d]; return !known })
	x.bound()
	sorted := sortedByTime(x.at)
	for _, d := range sorted[max(0, len(sorted)-maxExecutedStored):] {
		all = append(binary.BigEndian.AppendUint32(all, uint32(x.at[d])), d[:]...)
	}
	return all, maps.Clone(x.pending)
}

// executionOf identifies the work of a task for its request: another UpdateRequest with the same request is the same work. The zero digest is
// work that is not requested once, such as that of each round for existing objects.
func (t *task) executionOf() digest {
	request := t.u.Annotations[updaterequest.AnnotationRound]
	if r := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest; r != nil {
		request = string(r.UID)
	}
	if request == "" {
		return digest{}
	}
	return t.digestOf("request", request)
}

// versionOf identifies the work of a task for the current version of its trigger, if the rule does the same for all requests that lead to it.
// It is the zero digest otherwise, and for a request that changes nothing: this one asks for the work again.
func (t *task) versionOf(req *policy.Request) digest {
	r, needs := t.stored(), t.rule.Needs
	if r == nil || r.SubResource != "" || needs.User || needs.Roles || needs.OldObject || needs.Operation {
		return digest{}
	}
	switch r.Operation {
	case "CREATE":
	case "UPDATE":
		if changed, _ := t.changes(r); !changed {
			return digest{}
		}
	default:
		return digest{}
	}
	object, err := req.Subject()
	version := updaterequest.Version(object)
	if err != nil || version == "" {
		return digest{}
	}
	return t.digestOf("version", version, strconv.FormatInt(t.program.Generation, 10))
}

// of identifies the change of a target for a version of the trigger (versionOf): another request may lead to it, too, while the work for the
// other targets is retried.
func (d digest) of(version digest) digest {
	if version == (digest{}) {
		return digest{}
	}
	sum := sha256.Sum256(slices.Concat(version[:], d[:]))
	return digest(sum[:len(digest{})])
}

func (t *task) digestOf(parts ...string) digest {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q", parts, t.u.Spec.Policy, t.program.UID, t.Rule, updaterequest.TriggerID(t.Trigger)))
	return digest(sum[:len(digest{})])
}
