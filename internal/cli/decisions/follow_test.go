package decisions

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/decision"
)

// Records of a node whose clock is ahead do not hide those of the others from a reader that follows the store.
func TestFollowAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		page := func(_ context.Context, q *decision.Query, _ string, _ int) (out decision.Page, _ error) {
			for _, r := range []decision.Record{{UID: "now", Time: began}, {UID: "later", Time: began.Add(10 * time.Second)}, {UID: "last", Time: began.Add(5 * time.Minute)}, {UID: "ahead", Time: began.Add(time.Hour)}} {
				if (r.UID == "ahead" || !r.Time.After(time.Now())) && q.Selects(&r) {
					out.Records = append(out.Records, r)
				}
			}
			return out, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var uids []string
		err := followPages(ctx, page, &decision.Query{}, io.Discard, func(r *decision.Record) bool { uids = append(uids, r.UID); return true })
		if strings.Join(uids, " ") != "now ahead later last" || err != nil {
			t.Errorf("%q, %v", uids, err)
		}
	})
}

// A store that fails for a while is followed further: the reader says so once, waits longer and longer, and shows each record once. What cannot
// heal ends the command, as does a failure before the first answer.
func TestFollowAfterFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(query int) error
		uids  string
		says  string // on standard error
		err   string
		least int // number of queries, and the limit of it
		most  int
	}{
		{"no failure", func(int) error { return nil }, "a b", "", "", 500, 700},
		{"a restart", func(n int) error {
			if n > 2 && n < 6 {
				return errors.New("connection refused")
			}
			return nil
		}, "a b", "connection refused; it is tried again until it answers\n", "", 500, 700},
		{"two restarts", func(n int) error {
			if n > 2 && n < 6 || n == 8 {
				return errors.New("connection refused")
			}
			return nil
		}, "a b", strings.Repeat("connection refused; it is tried again until it answers\n", 2), "", 500, 700},
		{"no end of it", func(n int) error {
			if n > 2 {
				return errors.New("connection refused")
			}
			return nil
		}, "a", "connection refused; it is tried again until it answers\n", "", 20, 40},
		{"the first query", func(int) error { return errors.New("connection refused") }, "", "", "connection refused", 1, 1},
		{"the right is gone", func(n int) error {
			if n == 3 {
				return &remote.RefusedError{Text: "answers 403"}
			}
			return nil
		}, "a", "", "answers 403", 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, queries := time.Now(), 0
				page := func(_ context.Context, q *decision.Query, _ string, _ int) (out decision.Page, _ error) {
					queries++
					if err := c.fails(queries); err != nil {
						return out, err
					}
					for _, r := range []decision.Record{{UID: "a", Time: began}, {UID: "b", Time: began.Add(3 * time.Second)}} {
						if !r.Time.After(time.Now()) && q.Selects(&r) {
							out.Records = append(out.Records, r)
						}
					}
					return out, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var uids []string
				var says strings.Builder
				err := followPages(ctx, page, &decision.Query{}, &says, func(r *decision.Record) bool { uids = append(uids, r.UID); return true })
				text := ""
				if err != nil {
					text = err.Error()
				}
				if got := strings.Join(uids, " "); got != c.uids || says.String() != c.says || text != c.err || queries < c.least || queries > c.most {
					t.Errorf("%q, %q, %q, %d queries", got, says.String(), text, queries)
				}
			})
		})
	}
}
