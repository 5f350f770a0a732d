package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bookmarkEvery is the pause between two bookmarks.
const bookmarkEvery = time.Minute

// mostWaiting is the number of bytes that wait for a client; a watch with more ends, as watches of slow clients do.
const mostWaiting = 16 << 20

// watcher is the body of the answer to a watch.
type watcher struct {
	selection
	table     *table
	form      form
	bookmarks bool
	client    *Client
	ctx       context.Context
	server    *Server

	mu      sync.Mutex
	waiting bytes.Buffer
	over    bool
	news    chan struct{}
	timers  []*time.Timer
}

// watch begins a watch. The caller holds the lock.
func (s *Server) watch(q *Request, t *table, sel selection, f form) (*watcher, error) {
	o := q.Query
	w := &watcher{
		selection: sel, table: t, form: f, client: q.client, ctx: q.ctx, server: s, news: make(chan struct{}, 1),
		bookmarks: o.Get("allowWatchBookmarks") == "true" || o.Get("allowWatchBookmarks") == "1",
	}
	from := o.Get("resourceVersion")
	initial := o.Get("sendInitialEvents") == "true"
	if initial && (o.Get("resourceVersionMatch") != "NotOlderThan" || !w.bookmarks) {
		return nil, apierrors.NewBadRequest("sendInitialEvents needs resourceVersionMatch=NotOlderThan and allowWatchBookmarks")
	}
	if from == "" || from == "0" || initial {
		for _, key := range slices.Sorted(maps.Keys(t.live)) {
			if w.matches(key, t.live[key]) {
				w.push("ADDED", t.live[key].text(t.resource, f))
			}
		}
		if initial {
			w.bookmark(s.version, true)
		}
	} else {
		version, err := strconv.ParseInt(from, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("invalid resource version: " + from)
		}
		if version < t.compacted {
			gone := apierrors.NewResourceExpired("too old resource version: " + from + " (" + strconv.FormatInt(t.compacted+1, 10) + ")")
			text, _ := json.Marshal(statusOf(gone))
			w.push("ERROR", text)
			w.over = true
			return w, nil
		}
		for _, e := range t.log {
			if e.version > version {
				shown := e.after
				if shown == nil {
					last := maps.Clone(e.before.data)
					m := maps.Clone(metaOf(last))
					m["resourceVersion"] = strconv.FormatInt(e.version, 10)
					last["metadata"] = m
					shown = &object{data: last, version: e.version}
				}
				w.see(e, shown)
			}
		}
	}
	t.watchers[w] = struct{}{}
	if seconds, err := strconv.Atoi(o.Get("timeoutSeconds")); err == nil && seconds > 0 {
		w.timers = append(w.timers, time.AfterFunc(time.Duration(seconds)*time.Second, w.end))
	}
	if w.bookmarks {
		var again *time.Timer
		again = time.AfterFunc(bookmarkEvery, func() {
			s.mu.Lock()
			version := s.version
			s.mu.Unlock()
			w.mu.Lock()
			over := w.over
			w.mu.Unlock()
			if !over {
				w.bookmark(version, false)
				again.Reset(bookmarkEvery)
			}
		})
		w.timers = append(w.timers, again)
	}
	return w, nil
}

// send shows an event to the watches of the kind.
func (t *table) send(e event, shown *object) {
	for w := range t.watchers {
		w.see(e, shown)
	}
}

// see adds an event, as far as the watch selects the object. shown is the object in the event.
func (w *watcher) see(e event, shown *object) {
	was, is := w.matches(e.key, e.before), w.matches(e.key, e.after)
	switch {
	case was && is:
		w.push("MODIFIED", shown.text(w.table.resource, w.form))
	case is:
		w.push("ADDED", shown.text(w.table.resource, w.form))
	case was:
		w.push("DELETED", shown.text(w.table.resource, w.form))
	}
}

func (w *watcher) push(kind string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.waiting.WriteString(`{"type":"` + kind + `","object":`)
	w.waiting.Write(shifted(text, -w.client.ahead()))
	w.waiting.WriteString("}\n")
	if w.waiting.Len() > mostWaiting {
		w.over = true
	}
	w.wake()
}

func (w *watcher) wake() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watcher) bookmark(version int64, initial bool) {
	meta := map[string]any{"resourceVersion": strconv.FormatInt(version, 10), "creationTimestamp": nil}
	if initial {
		meta["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	text, _ := json.Marshal(present(map[string]any{"metadata": meta}, w.table.resource, w.form))
	w.push("BOOKMARK", text)
}

// end ends the watch in order.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.wake()
}

func (t *table) endWatches(which func(*watcher) bool) {
	for w := range t.watchers {
		if which(w) {
			w.end()
			delete(t.watchers, w)
		}
	}
}

// Read implements io.Reader. It waits while the way to the client is held.
func (w *watcher) Read(p []byte) (int, error) {
	for {
		if err := w.client.passes(w.ctx); err != nil {
			return 0, err
		}
		w.mu.Lock()
		n, _ := w.waiting.Read(p)
		over := w.over
		w.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if over {
			return 0, io.EOF
		}
		select {
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		case <-w.news:
		}
	}
}

// Close ends the watch.
func (w *watcher) Close() error {
	w.end()
	for _, t := range w.timers {
		t.Stop()
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.table.watchers, w)
	return nil
}
