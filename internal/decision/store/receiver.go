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

	"github.com/ephor-dev/ephor/internal/decision"
)

// The limits of a Receiver.
const (
	maxSenders     = 1000 // whose last batches are remembered
	maxConnections = 64
	batchesAtOnce  = 8
	storeTimeout   = 10 * time.Second
	// tidyEvery is how often old records are deleted although none arrive.
	tidyEvery = time.Minute
)

// Receiver takes the batches that Remotes send, and stores them. It answers when a batch is stored.
type Receiver struct {
	to  decision.Store
	log *slog.Logger

	at      chan struct{} // batches that are taken now
	mu      sync.Mutex
	senders map[string]*sender
}

// sender is one process that sends.
type sender struct {
	mu   sync.Mutex
	last uint64 // the batch that was stored
}

// NewReceiver returns a Receiver for a store.
func NewReceiver(to decision.Store, log *slog.Logger) *Receiver {
	return &Receiver{to: to, log: log, at: make(chan struct{}, batchesAtOnce), senders: map[string]*sender{}}
}

// Serve takes batches until ctx is done. The configuration must verify the certificates of clients.
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
	go r.tidy(ctx)
	if err := s.ServeTLS(netutil.LimitListener(l, maxConnections), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("take decisions: %w", err)
	}
	return nil
}

// Tidier is a store that deletes old records by itself.
type Tidier interface{ Tidy(context.Context) error }

// tidy deletes old records now and then, until ctx is done.
func (r *Receiver) tidy(ctx context.Context) {
	t, ok := r.to.(Tidier)
	if !ok {
		return
	}
	every := time.NewTicker(tidyEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if err := t.Tidy(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("old decisions were not deleted", "error", err)
		}
	}
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status, text := r.take(req)
	if status == http.StatusNoContent {
		if text != "" {
			w.Header().Set(lostHeader, text)
		}
		w.WriteHeader(status)
		return
	}
	http.Error(w, text, status)
}

// take stores a batch. The text explains an error; of a batch that was stored in part it is how many records were not.
func (r *Receiver) take(req *http.Request) (status int, text string) {
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
	number, err := strconv.ParseUint(req.Header.Get(batchHeader), 10, 64)
	id := req.Header.Get(senderHeader)
	if err != nil || number == 0 || id == "" || len(id) > 64 {
		return http.StatusBadRequest, "the batch has no sender and number"
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBatchBytes+1))
	if err != nil {
		return http.StatusBadRequest, "the batch cannot be read"
	}
	if len(body) > maxBatchBytes {
		return http.StatusRequestEntityTooLarge, "the batch is too long"
	}
	records, err := decision.ParseBatch(body, maxBatchRecords)
	if err != nil {
		return http.StatusBadRequest, err.Error()
	}
	from := r.sender(id)
	from.mu.Lock()
	defer from.mu.Unlock()
	if number <= from.last {
		return http.StatusNoContent, "" // its answer was lost
	}
	// A client that goes away does not undo what is being written.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), storeTimeout)
	defer cancel()
	var partly *decision.PartlyStored
	switch err := r.to.Write(ctx, records); {
	case errors.As(err, &partly): // sent again, the others would be stored twice
		r.log.Error("decisions were not stored", "records", partly.Lost, "error", err)
		from.last = number
		return http.StatusNoContent, strconv.Itoa(partly.Lost)
	case err != nil:
		r.log.Error("decisions were not stored", "records", len(records), "error", err)
		return http.StatusServiceUnavailable, "the store failed: the log of this process has the reason"
	}
	from.last = number
	return http.StatusNoContent, ""
}

// sender returns the state of a sender.
func (r *Receiver) sender(id string) *sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.senders[id]
	if one == nil {
		if len(r.senders) >= maxSenders {
			for other := range r.senders { // any: a sender that is forgotten can at most store one batch twice
				delete(r.senders, other)
				break
			}
		}
		one = &sender{}
		r.senders[id] = one
	}
	return one
}
