package origin

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/updaterequest"
)

// Shards is the number of ConfigMaps that hold the record.
const Shards = 8

// Name returns the name of a ConfigMap of the record.
func Name(shard int) string { return "ephor-generated-" + strconv.Itoa(shard) }

// RecordLabel and RecordValue are the label of the ConfigMaps that list the objects.
const RecordLabel, RecordValue = names.Domain + "record", "generated"

const (
	contentKey = "objects.json.gz"
	// maxStored is the maximum size of a ConfigMap's content; ConfigMaps may have 1 MiB. maxContent is the maximum size before compression.
	maxStored, maxContent = 900 << 10, 64 << 20
	// settleTime is how long changes are collected before they are stored.
	settleTime = time.Second
	// lastTime limits the last write of a process.
	lastTime = 5 * time.Second
	// refusedTime is the pause after a shard could not be stored for a reason that an administrator has to remove.
	refusedTime = 5 * time.Minute
)

// shard is one ConfigMap of the record.
type shard struct {
	version string            // the version that was last read or written
	pending map[string]*Entry // by UID; nil for an entry to remove
	// refused is the time at which the controller last was not allowed to store the shard, or the shard was too large; zero if it is stored. Its
	// pending changes stay in memory, so that the shard as stored does not undo them.
	refused time.Time
}

func shardOf(uid string) int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, uid)
	return int(h.Sum32() % Shards)
}

// ShardOf returns the shard that is stored in a ConfigMap.
func ShardOf(name string) (shard int, ok bool) {
	n, found := strings.CutPrefix(name, "ephor-generated-")
	shard, err := strconv.Atoi(n)
	return shard, found && err == nil && shard >= 0 && shard < Shards
}

// Load reads the record. If the controller may not read the ConfigMaps, the record holds only the objects of this process.
func (l *Record) Load(ctx context.Context) error {
	for i := range Shards {
		if err := l.reload(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// reload reads one shard and merges it.
func (l *Record) reload(ctx context.Context, i int) error {
	if l.o.Client == nil {
		return nil
	}
	for range updaterequest.Attempts {
		known := l.version(i)
		cm, err := l.read(ctx, Name(i))
		switch {
		case apierrors.IsForbidden(err):
			l.o.Log.Warn("the record of generated objects cannot be read: they are identified by their marks only", "configMap", Name(i), "error", err)
			return nil
		case err != nil:
			return fmt.Errorf("read the ConfigMap %s: %w", Name(i), err)
		}
		var stored map[string]*Entry
		version := ""
		if cm != nil {
			version = cm.ResourceVersion
			if stored, err = decode(cm.BinaryData[contentKey]); err != nil {
				l.o.Log.Error("a part of the record of generated objects is damaged and is written again: its objects are identified by their marks only", "configMap", Name(i), "error", err)
			}
		}
		if l.merge(i, stored, version, known) {
			return nil
		}
	}
	return fmt.Errorf("read the ConfigMap %s: other replicas write it all the time", Name(i))
}

// version returns the version of a shard that was last read or written.
func (l *Record) version(i int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shards[i].version
}

// read returns a ConfigMap of the record; nil if there is none.
func (l *Record) read(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	if l.o.Client == nil {
		return nil, nil
	}
	cm := &corev1.ConfigMap{}
	if err := l.o.Client.Get(ctx, client.ObjectKey{Namespace: l.o.Namespace, Name: name}, cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cm, nil
}

// newMap returns a ConfigMap of the record that does not exist yet.
func (l *Record) newMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.o.Namespace, Name: name, Labels: labels}}
}

// write creates or updates a ConfigMap of the record.
func (l *Record) write(ctx context.Context, cm *corev1.ConfigMap) error {
	switch {
	case l.o.Client == nil:
		return nil
	case cm.ResourceVersion == "":
		return l.o.Client.Create(ctx, cm)
	}
	return l.o.Client.Update(ctx, cm)
}

// merge applies the stored state of a shard: the entries that other replicas added and removed. Pending changes of this process stay. known is the
// version before the state was read or written. If it is no longer that, the state may be older than the one that was merged meanwhile: merge
// changes nothing and returns false.
func (l *Record) merge(i int, stored map[string]*Entry, version, known string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.shards[i]
	if s.version != known {
		return false
	}
	s.version = version
	changed := false
	for uid, e := range stored {
		if _, mine := s.pending[uid]; mine || shardOf(uid) != i {
			continue
		}
		have := l.entries[uid]
		if have != nil && *have == *e {
			continue
		}
		if have == nil && len(l.entries) >= Max {
			continue
		}
		l.put(e)
		changed = true
	}
	for uid := range l.entries {
		_, mine := s.pending[uid]
		if stored[uid] == nil && !mine && shardOf(uid) == i {
			l.remove(uid)
			changed = true
		}
	}
	if changed && l.o.Changed != nil {
		l.o.Changed()
	}
	return true
}

// Stored handles a write of a shard, by this replica or another one. After an error the caller calls it again.
func (l *Record) Stored(ctx context.Context, name, version string) error {
	i, ok := ShardOf(name)
	if !ok {
		return nil
	}
	if l.version(i) == version {
		return nil
	}
	return l.reload(ctx, i)
}

// Reconcile stores changes that are some time old, and returns when to call it again without a change.
func (l *Record) Reconcile(ctx context.Context) (again time.Duration, err error) {
	if l.o.Client == nil {
		return 0, nil
	}
	l.mu.Lock()
	early := time.Until(l.since.Add(settleTime))
	if !l.since.IsZero() && early > 0 {
		l.mu.Unlock()
		return early, nil
	}
	l.since = time.Time{}
	l.mu.Unlock()
	if err := l.store(ctx, false); err != nil {
		return 0, fmt.Errorf("store the record of generated objects: %w", err)
	}
	if l.refuses() {
		return refusedTime, nil
	}
	return 0, nil
}

// End waits for the end of ctx and then stores what is left, after everything that generates objects has ended.
func (l *Record) End(ctx context.Context) {
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	if err := l.Store(last); err != nil {
		l.o.Log.Warn("the record of generated objects is incomplete: missing objects are recorded again by their marks", "error", err)
	}
}

// Store stores pending changes.
func (l *Record) Store(ctx context.Context) error { return l.store(ctx, true) }

// store stores pending changes. Unless all is set, it leaves out shards that were recently refused.
func (l *Record) store(ctx context.Context, all bool) error {
	if l.o.Client == nil {
		return nil
	}
	var errs []error
	for i := range Shards {
		l.mu.Lock()
		s := &l.shards[i]
		due := len(s.pending) > 0 && (all || s.refused.IsZero() || time.Since(s.refused) >= refusedTime)
		l.mu.Unlock()
		if due {
			errs = append(errs, l.storeShard(ctx, i))
		}
	}
	return errors.Join(errs...)
}

// storeShard adds the changes of one shard to its stored state, which another replica may have written.
func (l *Record) storeShard(ctx context.Context, i int) error {
	for range updaterequest.Attempts {
		l.mu.Lock()
		changes, known := maps.Clone(l.shards[i].pending), l.shards[i].version
		l.mu.Unlock()
		cm, err := l.read(ctx, Name(i))
		if apierrors.IsForbidden(err) {
			l.refuse(i, changes, nil) // the error was reported when the shard was loaded
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the ConfigMap %s: %w", Name(i), err)
		}
		isNew := cm == nil
		if isNew {
			cm = l.newMap(Name(i), map[string]string{RecordLabel: RecordValue})
		}
		stored, err := decode(cm.BinaryData[contentKey])
		if err != nil {
			stored = map[string]*Entry{} // the error was reported when the shard was loaded
		}
		before := maps.Clone(stored)
		for uid, e := range changes {
			if e == nil {
				delete(stored, uid)
			} else {
				stored[uid] = e
			}
		}
		content, err := encode(stored)
		if err != nil {
			return err
		}
		switch {
		case !isNew && bytes.Equal(content, cm.BinaryData[contentKey]), isNew && len(stored) == 0:
		case len(content) > maxStored:
			if l.refuse(i, changes, before) {
				l.o.Log.Error("a part of the record of generated objects is too large to be stored: after a restart its new objects are identified by their marks only", "configMap", Name(i), "bytes", len(content))
			}
			return nil
		default:
			cm.BinaryData = map[string][]byte{contentKey: content}
			err = l.write(ctx, cm)
		}
		switch {
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			if l.refuse(i, changes, before) {
				l.o.Log.Warn("the record of generated objects cannot be written: after a restart they are identified by their marks only", "configMap", Name(i), "error", err)
			}
			return nil
		case err != nil:
			l.forgetPassing(i, changes, before)
			return fmt.Errorf("write the ConfigMap %s: %w", Name(i), err)
		}
		if !l.written(i, changes, stored, cm.ResourceVersion, known) {
			return l.reload(ctx, i)
		}
		return nil
	}
	return fmt.Errorf("write the ConfigMap %s: other replicas write it all the time", Name(i))
}

// forgetPassing forgets removed objects that are not in the stored shard, so that the changes that are kept while it cannot be stored are bounded.
func (l *Record) forgetPassing(i int, changes, stored map[string]*Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pending := l.shards[i].pending
	for uid, e := range changes {
		if now, waits := pending[uid]; waits && now == nil && e == nil && stored[uid] == nil {
			delete(pending, uid)
		}
	}
}

// refuse keeps the changes of a shard that cannot be stored, and reports whether it could be stored before.
func (l *Record) refuse(i int, changes, stored map[string]*Entry) (first bool) {
	l.forgetPassing(i, changes, stored)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.shards[i]
	first = s.refused.IsZero()
	s.refused = time.Now()
	return first
}

// refuses reports whether changes of a shard that could not be stored are kept.
func (l *Record) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.shards[:], func(s shard) bool { return !s.refused.IsZero() && len(s.pending) > 0 })
}

// written updates the state of a shard after it was stored. It returns what merge returns.
func (l *Record) written(i int, changes, stored map[string]*Entry, version, known string) bool {
	l.mu.Lock()
	l.shards[i].refused = time.Time{}
	for uid, e := range changes {
		if now, waits := l.shards[i].pending[uid]; waits && now == e {
			delete(l.shards[i].pending, uid)
		}
	}
	l.mu.Unlock()
	return l.merge(i, stored, version, known)
}

// encode encodes entries. Equal entries have equal encodings.
func encode(entries map[string]*Entry) ([]byte, error) {
	all := slices.SortedFunc(maps.Values(entries), func(a, b *Entry) int { return compare(a.Object, b.Object) })
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if err := json.NewEncoder(z).Encode(all); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decode decodes entries and skips those without a UID.
func decode(content []byte) (map[string]*Entry, error) {
	out := map[string]*Entry{}
	if len(content) == 0 {
		return out, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return out, err
	}
	text, err := bounded.Read(z, maxContent)
	if err != nil {
		return out, err
	}
	var all []*Entry
	if err := json.Unmarshal(text, &all); err != nil {
		return out, err
	}
	for _, e := range all {
		if e != nil && e.Object.UID != "" && len(out) < Max {
			out[e.Object.UID] = e
		}
	}
	return out, nil
}

func compare(a, b mark.Object) int {
	return cmp.Or(compareText(a.APIVersion, b.APIVersion), compareText(a.Kind, b.Kind), compareText(a.Namespace, b.Namespace), compareText(a.Name, b.Name), compareText(a.UID, b.UID))
}

func compareText(a, b string) int { return strings.Compare(a, b) }
