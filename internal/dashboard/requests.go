package dashboard

import (
	"context"

	"ephor.invalid/ephor/internal/decision"
)

// withhold removes the requests from records whose objects the user of a session may not list.
func (d *Dashboard) withhold(ctx context.Context, one *session, records []decision.Record) error {
	reading := d.sessions.reading(one)
	for i := range records {
		r := &records[i]
		if r.Request == nil {
			continue
		}
		allowed, err := reading.may(ctx, r)
		if err != nil {
			return err
		}
		if !allowed {
			r.Request = &decision.Request{Withheld: true}
			continue
		}
		if err := reading.withholdLookups(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
