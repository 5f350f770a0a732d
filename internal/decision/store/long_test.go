package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/decision"
)

// testLongRecords reads records with long messages: the pages are short, and no record is missing.
func testLongRecords(t *testing.T, s interface {
	decision.Store
	decision.Reader
}) {
	t.Helper()
	const long = 1 << 20
	records := withRequests(some(40, rand.New(rand.NewPCG(61, 62))), rand.New(rand.NewPCG(63, 64)))
	for i := range records {
		records[i].Message = fmt.Sprint(i) + strings.Repeat("m", long)
	}
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	for _, oldest := range []bool{true, false} {
		for _, requests := range []bool{true, false} {
			for _, policies := range [][]string{nil, {"policy-1"}} {
				q := &decision.Query{Oldest: oldest, Requests: requests, Policies: policies}
				want, seen, most := 0, map[string]bool{}, 0
				for i := range records {
					if q.Selects(&records[i]) {
						want++
					}
				}
				for after := ""; ; {
					page, err := s.Page(t.Context(), q, after, 100)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range page.Records {
						seen[r.UID] = true
					}
					most = max(most, len(page.Records))
					if after = page.Next; after == "" {
						break
					}
				}
				if len(seen) != want || most > pageBytes/long+1 {
					t.Errorf("%+v: %d of %d records, up to %d on a page", q, len(seen), want, most)
				}
			}
		}
	}
}

func TestLongRecords(t *testing.T) {
	eachStore(t, func(t *testing.T, address string) {
		s := openStore(t, address, Options{})
		testLongRecords(t, s)
		if file, ok := s.(*SQLite); ok && file.partsBytes > maxTermBytes {
			t.Errorf("%d bytes of terms are in memory", file.partsBytes)
		}
	})
}
