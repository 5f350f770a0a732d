package store

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ephor.invalid/ephor/internal/decision"
)

// collected is a collector that keeps the events that it gets, and rejects some.
type collected struct {
	collector.UnimplementedLogsServiceServer
	mu     sync.Mutex
	got    []*collector.ExportLogsServiceRequest
	reject int64
	busy   int // answers that it cannot take a message now
}

func (c *collected) Export(_ context.Context, r *collector.ExportLogsServiceRequest) (*collector.ExportLogsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy > 0 {
		c.busy--
		return nil, status.Error(codes.Unavailable, "data refused due to high memory usage")
	}
	c.got = append(c.got, r)
	out := &collector.ExportLogsServiceResponse{}
	if c.reject > 0 {
		out.PartialSuccess = &collector.ExportLogsPartialSuccess{RejectedLogRecords: c.reject, ErrorMessage: "too many"}
	}
	return out, nil
}

// collect starts a collector, and returns its address.
func collect(t *testing.T, c *collected) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collector.RegisterLogsServiceServer(server, c)
	go func() { _ = server.Serve(l) }() // it stops at the end of the test
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// A collector gets each decision as an event, with the names of the semantic conventions and the record as its body.
func TestOTLP(t *testing.T) {
	c := &collected{}
	s, err := Open("otlp+insecure://"+collect(t, c), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := some(20, rand.New(rand.NewPCG(1, 3)))
	records[0].User, records[0].Cluster = "jane\xff", "east"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Write(ctx, records); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	got := c.got[0].ResourceLogs[0]
	c.reject = 3
	c.mu.Unlock()
	names := map[string]string{}
	for _, a := range append(got.Resource.Attributes, got.ScopeLogs[0].LogRecords[0].Attributes...) {
		names[a.Key] = a.Value.GetStringValue()
	}
	if names["service.name"] != "ephor" || names["k8s.cluster.name"] != "east" || names["user.name"] != "jane\ufffd" || names["ephor.decision.uid"] != records[0].UID || names["event.name"] != eventName {
		t.Errorf("%v", names)
	}
	for i, one := range got.ScopeLogs[0].LogRecords {
		var r decision.Record
		if err := json.Unmarshal([]byte(one.Body.GetStringValue()), &r); err != nil || r.UID != records[i].UID || one.TimeUnixNano != uint64(records[i].Time.UnixNano()) {
			t.Errorf("%v, %+v", err, r)
		}
	}
	err = s.Write(ctx, records)
	partly, ok := err.(*decision.PartlyStored)
	if !ok || partly.Lost != 3 {
		t.Errorf("%v", err)
	}
	for _, address := range []string{"otlp://x", "otlp+insecure://", "otlp:"} {
		if _, err := NewOTLP(address); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
}

// A batch that is longer than a collector accepts is divided, and a record that is too long does not affect the others.
func TestOTLPLongBatch(t *testing.T) {
	c := &collected{}
	s, err := NewOTLP("otlp+insecure://" + collect(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	records := some(1000, rand.New(rand.NewPCG(51, 52)))
	for i := range records {
		records[i].Message = strings.Repeat("m", 10<<10)
	}
	if err := s.Write(ctx, records); err != nil {
		t.Fatal(err)
	}
	records[500].Message = strings.Repeat("m", maxMessage)
	var partly *decision.PartlyStored
	if err := s.Write(ctx, records[490:510]); !errors.As(err, &partly) || partly.Lost != 1 {
		t.Errorf("%v", err)
	}
	n := 0
	for _, r := range c.got {
		n += len(r.ResourceLogs[0].ScopeLogs[0].LogRecords)
	}
	if n != len(records)+19 {
		t.Errorf("%d records arrived", n)
	}
}

// A collector that vanished does not close its connection. The batch after the one that is lost arrives over a new connection.
func TestOTLPVanishes(t *testing.T) {
	c, v := &collected{}, &vanishing{}
	s, err := NewOTLP("otlp+insecure://" + v.listen(t, "tcp", "127.0.0.1:0", collect(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.Write(ctx, some(1, rand.New(rand.NewPCG(53, 54))))
	}
	if err := write(time.Minute); err != nil {
		t.Fatal(err)
	}
	v.vanish()
	if err := write(time.Second); err == nil {
		t.Error("stored by a collector that vanished")
	}
	if err := write(10 * time.Second); err != nil {
		t.Error(err)
	}
}

// A batch that a collector cannot take for a moment, as while it restarts or lacks memory, is sent again for as long as a write may take.
func TestOTLPBusy(t *testing.T) {
	c := &collected{busy: 2}
	s, err := NewOTLP("otlp+insecure://" + collect(t, c))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Write(ctx, some(3, rand.New(rand.NewPCG(55, 56)))); err != nil || len(c.got) != 1 {
		t.Errorf("%d messages, %v", len(c.got), err)
	}
	c.busy = 1 << 30
	short, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := s.Write(short, some(3, rand.New(rand.NewPCG(55, 56)))); err == nil {
		t.Error("stored by a collector that takes nothing")
	}
}
