package store

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// The limits of what a Remote sends and a Receiver accepts at once.
const (
	maxBatchBytes   = 4 << 20
	maxBatchRecords = 1000
	// firstPause and longestPause bound the pauses before a batch is sent again.
	firstPause, longestPause = 200 * time.Millisecond, 2 * time.Second
	// sendTimeout bounds one attempt.
	sendTimeout = 5 * time.Second
)

// lostHeader has the number of records of a batch that were not stored, although the others were.
const lostHeader = "Ephor-Lost"

// batchPath is the path to which batches are posted.
const batchPath = "/v1/decisions"

// Remote sends records to the Receiver of another process, which stores them.
type Remote struct {
	url    string
	client *http.Client
	room   []byte // buffer for a batch
}

// remoteRow is the row of the store in the table of stores.
var remoteRow = row{
	prefix: "https://", form: "https://HOST:PORT", is: "the store of the reports controller",
	open: func(address string, o Options) (decision.Store, error) { return NewRemote(address, o.TLS) },
}

// maxRoom bounds the memory that is kept between batches.
const maxRoom = 2 << 20

// NewRemote returns the store at an address: https://HOST:PORT. configure returns the TLS configuration of the next connection.
func NewRemote(address string, configure func() (*tls.Config, error)) (*Remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is not https://HOST:PORT", address)
	}
	if configure == nil {
		return nil, errors.New("a store that is reached over TLS needs certificates")
	}
	transport := &http.Transport{
		MaxIdleConns: 1, IdleConnTimeout: time.Minute,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := configure()
			if err != nil {
				return nil, err
			}
			if c.ServerName == "" {
				c.ServerName = u.Hostname()
			}
			return (&tls.Dialer{NetDialer: &net.Dialer{Timeout: sendTimeout}, Config: c}).DialContext(ctx, network, addr)
		},
	}
	return &Remote{
		url:    "https://" + u.Host + batchPath,
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Write implements decision.Store. If a batch is not answered, it sends the batch again with the same ID, until ctx is done.
func (s *Remote) Write(ctx context.Context, records []decision.Record) error {
	return inParts(records, func(part []decision.Record) error { return s.writePart(ctx, part) })
}

func (s *Remote) writePart(ctx context.Context, records []decision.Record) error {
	room := s.room
	s.room = nil // the connection may still read a batch that failed
	body, err := decision.AppendBatch(room[:0], decision.NewBatchID(), records)
	if err != nil {
		return err
	}
	if len(body) > maxBatchBytes || len(records) > maxBatchRecords {
		return tooLong(len(body))
	}
	if err = s.send(ctx, body); err == nil && cap(body) <= maxRoom {
		s.room = body
	}
	return err
}

func (s *Remote) send(ctx context.Context, body []byte) error {
	return attempts(ctx, func() (bool, error) { return s.post(ctx, body) })
}

// attempts calls attempt, with growing pauses, until it succeeds, another attempt would not succeed, or ctx is done. It returns the last error.
func attempts(ctx context.Context, attempt func() (again bool, err error)) error {
	pause := firstPause
	for {
		again, err := attempt()
		if err == nil || !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// post sends a batch once. again: another attempt may succeed.
func (s *Remote) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := s.client.Do(r)
	if err != nil {
		return true, err
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 512)) // it only explains an error
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNoContent:
		if n, err := strconv.Atoi(answer.Header.Get(lostHeader)); err == nil && n > 0 {
			return false, &decision.PartlyStored{Lost: n, Err: errors.New("the store kept only a part of the batch: its log has the reason")}
		}
		return false, nil
	case answer.StatusCode >= 500, answer.StatusCode == http.StatusTooManyRequests:
		return true, fmt.Errorf("the store answers %s: %q", answer.Status, text)
	}
	return false, fmt.Errorf("the store answers %s: %q", answer.Status, text)
}

// Close implements decision.Store.
func (s *Remote) Close() error {
	s.client.CloseIdleConnections()
	return nil
}
