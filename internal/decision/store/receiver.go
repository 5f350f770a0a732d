package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"ephor.invalid/ephor/internal/decision"
)

// The limits of a Receiver.
const (
	maxDeliveries  = 1000 // number of batches that are remembered in memory
	maxConnections = 64
	batchesAtOnce  = 8
	storeTimeout   = 10 * time.Second
)

// Receiver takes the batches that Remotes send, and stores them. It answers when a batch is stored. A batch that arrives again is stored
// only once: the Receiver remembers the batches of the last seconds, and a decision.OnceStore remembers them across a restart.
type Receiver struct {
	to  decision.Store
	log *slog.Logger

	at         chan struct{}       // one element for each batch that is being taken
	turn       *semaphore.Weighted // of a store that takes one batch at a time
	mu         sync.Mutex
	deliveries map[decision.BatchID]*delivery
	order      []decision.BatchID // of deliveries, the oldest first
}

// delivery is one batch and its outcome.
type delivery struct {
	mu     sync.Mutex
	stored bool
	lost   int // number of its records that were not stored, although the others were
}

// NewReceiver returns a Receiver for a store.
func NewReceiver(to decision.Store, log *slog.Logger) *Receiver {
	return &Receiver{to: to, log: log, at: make(chan struct{}, batchesAtOnce), turn: semaphore.NewWeighted(1), deliveries: map[decision.BatchID]*delivery{}}
}

// Serve takes batches until ctx is done, and closes the listener. After an error it may be called again with another one. The configuration must
// verify the certificates of clients.
func (r *Receiver) Serve(ctx context.Context, l net.Listener, c *tls.Config) error {
	if c == nil || c.ClientAuth != tls.RequireAndVerifyClientCert && c.GetConfigForClient == nil {
		return errors.New("a receiver verifies its clients")
	}
	s := &http.Server{
		Handler: r, TLSConfig: c, MaxHeaderBytes: 8 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: storeTimeout + 10*time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go decision.TidyRegularly(ctx, r.to, r.log)
	// The caller may close the store afterwards: wait for the end of a write.
	defer func() {
		if within(context.WithoutCancel(ctx), storeTimeout, func(ctx context.Context) error { return r.turn.Acquire(ctx, 1) }) == nil {
			r.turn.Release(1)
		}
	}()
	if err := s.ServeTLS(netutil.LimitListener(l, maxConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("take decisions: %w", err)
	}
	return nil
}

// within calls a function with a time limit.
func within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return call(ctx)
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status, text := r.receive(req)
	if status == http.StatusNoContent {
		if text != "" {
			w.Header().Set(lostHeader, text)
		}
		w.WriteHeader(status)
		return
	}
	http.Error(w, text, status)
}

// receive stores a batch. The text explains an error; for a batch that was stored in part it is the number of records that were not stored.
func (r *Receiver) receive(req *http.Request) (status int, text string) {
	if req.URL.Path != batchPath {
		return http.StatusNotFound, "there is nothing here"
	}
	if req.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "batches are posted"
	}
	select {
	case r.at <- struct{}{}:
		defer func() { <-r.at }()
	default:
		return http.StatusTooManyRequests, "too many batches at once"
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBatchBytes+1))
	if err != nil {
		return http.StatusBadRequest, "the batch cannot be read"
	}
	if len(body) > maxBatchBytes {
		return http.StatusRequestEntityTooLarge, "the batch is too long"
	}
	id, records, err := decision.ParseBatch(body, maxBatchRecords)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if id == (decision.BatchID{}) {
		return http.StatusBadRequest, "the batch has no ID"
	}
	one := r.delivery(id)
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.stored { // otherwise only the answer was lost
		// A client that disconnects does not cancel the write.
		err := within(context.WithoutCancel(req.Context()), storeTimeout, func(ctx context.Context) error { return r.write(ctx, id, records) })
		var partly *decision.PartlyStored
		switch {
		case errors.As(err, &partly) && partly.Lost < len(records): // if the batch were sent again, the other records would be stored twice
			r.log.Error("decisions were not stored", "records", partly.Lost, "error", err)
			one.lost = partly.Lost
		case err != nil:
			r.log.Error("decisions were not stored", "records", len(records), "error", err)
			return http.StatusServiceUnavailable, "the store failed: the log of this process has the reason"
		}
		one.stored = true
	}
	if one.lost > 0 {
		return http.StatusNoContent, strconv.Itoa(one.lost)
	}
	return http.StatusNoContent, ""
}

// write stores a batch, and only once if the store remembers batches.
func (r *Receiver) write(ctx context.Context, id decision.BatchID, records []decision.Record) error {
	if once, ok := r.to.(decision.OnceStore); ok {
		return once.WriteOnce(ctx, id, records)
	}
	if err := r.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.turn.Release(1)
	return r.to.Write(ctx, records)
}

// delivery returns the state of a batch. If there are too many batches, it forgets the oldest one.
func (r *Receiver) delivery(id decision.BatchID) *delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.deliveries[id]
	if one == nil {
		if len(r.order) >= maxDeliveries {
			delete(r.deliveries, r.order[0])
			r.order = append(r.order[:0], r.order[1:]...)
		}
		one = &delivery{}
		r.deliveries[id], r.order = one, append(r.order, id)
	}
	return one
}
