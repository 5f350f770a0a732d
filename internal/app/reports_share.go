package app

import (
	"context"
	"errors"
	"time"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/scan"
	"ephor.invalid/ephor/internal/status"
)

// reportsRing is the ring of the replicas that share the namespaces for which reports are written.
const reportsRing = "reports-controller"

// writeOmissions writes to the status of each policy which objects or kinds the scans skip.
func (c *reporting) writeOmissions(ctx context.Context) (time.Duration, error) {
	writer := &status.Writer{Client: c.manager.GetClient()}
	omissions := c.scanner.Omissions()
	objects, _ := c.policies.All()
	var errs []error
	for id, o := range objects {
		want := scanStatus(omissions[id])
		if _, err := writer.WriteScan(ctx, o, want); err != nil {
			errs = append(errs, err)
		}
	}
	return writeOmissionsEvery, errors.Join(errs...)
}

// writeOmissionsEvery is how often statuses are checked without changes, since another client may have overwritten them.
const writeOmissionsEvery = time.Minute

// scanStatus returns the status field for omissions; nil for none.
func scanStatus(omissions []scan.Omission) *kyvernov1.BackgroundScanStatus {
	if len(omissions) == 0 {
		return nil
	}
	out := &kyvernov1.BackgroundScanStatus{}
	for _, o := range omissions {
		out.NotScanned = append(out.NotScanned, kyvernov1.NotScanned{Rule: o.Rule, Kind: o.Kind, Reason: o.Reason})
	}
	return out
}
