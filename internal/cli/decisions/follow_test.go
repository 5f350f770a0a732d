package decisions

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		err := followPages(ctx, page, &decision.Query{}, func(r *decision.Record) bool { uids = append(uids, r.UID); return true })
		if strings.Join(uids, " ") != "now ahead later last" || err != nil {
			t.Errorf("%q, %v", uids, err)
		}
	})
}
