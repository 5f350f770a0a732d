package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
)

// A batch that is larger than the file is stored in parts: as many of the newest records as fit are kept, also if the batch is sent again. A
// request that is too large for the file is left out, and its decision is stored.
func TestBatchLargerThanTheFile(t *testing.T) {
	const most = 1 << 20
	random := rand.New(rand.NewPCG(51, 52))
	records := func(n, bytes int) []decision.Record {
		out := some(n, random)
		for i := range out {
			out[i].Time = day.Add(time.Duration(i) * time.Millisecond)
			out[i].Request = &decision.Request{Version: "v1", Resource: "pods", Object: bodyOf(string(bytesOf(random, bytes)))}
		}
		return out
	}
	for _, c := range []struct {
		n, bytes int
		least    int  // number of records that are kept
		request  bool // they are kept with their requests
	}{
		{128, 1 << 10, 128, true},
		{128, 8 << 10, 30, true},
		{128, 60 << 10, 4, true},
		{4, 400 << 10, 1, true},
		{4, most, 4, false},
	} {
		t.Run(fmt.Sprint(c.n, "x", c.bytes), func(t *testing.T) {
			s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{MaxBytes: most})
			for round := range 3 { // the file of later rounds is full
				batch, id := records(c.n, c.bytes), decision.NewBatchID()
				for range 2 { // the second one is a repetition
					if err := s.WriteOnce(t.Context(), id, batch); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
				}
				got := all(t, s, &decision.Query{Requests: true}, 100)
				seen := map[string]bool{}
				for _, r := range got {
					if seen[r.UID] {
						t.Errorf("round %d: a record is stored twice", round)
					}
					seen[r.UID] = true
				}
				var newest int
				for i := len(batch) - 1; i >= 0 && seen[batch[i].UID]; i-- {
					newest++
				}
				if newest < c.least {
					t.Fatalf("round %d: %d of the newest records are kept, want %d", round, newest, c.least)
				}
				if request := got[0].Request != nil; request != c.request {
					t.Errorf("round %d: a record has a request: %t", round, request)
				}
			}
		})
	}
}

// Of a batch with a record that no file of this size can have, the others are stored, and the error has the number of lost ones.
func TestRecordLargerThanTheFile(t *testing.T) {
	random := rand.New(rand.NewPCG(53, 54))
	s := opened(t, filepath.Join(t.TempDir(), "d.db"), Options{MaxBytes: 1 << 20})
	write(t, s, some(100, random))
	batch := some(100, random)
	batch[50].Message = string(bytesOf(random, 2<<20))
	var partly *decision.PartlyStored
	if err := s.Write(t.Context(), batch); !errors.As(err, &partly) || partly.Lost != 1 {
		t.Errorf("the error is %v", err)
	}
	if n := len(all(t, s, &decision.Query{}, 1000)); n != 199 {
		t.Errorf("%d records are stored", n)
	}
}
