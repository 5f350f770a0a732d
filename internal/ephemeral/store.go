package ephemeral

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "ephor.invalid/ephor/api/reports/v1"
)

const (
	// attempts bounds the attempts of a write that conflicts with another writer.
	attempts = 3
	// writeTimeout bounds the time to write one object.
	writeTimeout = 10 * time.Second
	// countEvery is the time for which the counted number of objects is used, plus the objects written since then.
	countEvery = 5 * time.Second
)

// Objects is a Store that stores each Report in an EphemeralReport or ClusterEphemeralReport. It is for one goroutine.
type Objects struct {
	client client.Client
	source Source
	max    int
	keys   Keys
	doubts *Doubts

	counted time.Time
	exist   int // the counted number, plus the objects written since then
}

// NewStore returns a Store for the objects of a source; max is the maximum number of objects of all sources. The client
// must not use a cache, and its scheme must know reports.kyverno.io/v1. Each object is sealed with the current key of
// keys; doubts is called for existing objects under the same name that we did not write.
func NewStore(c client.Client, source Source, max int, keys Keys, doubts *Doubts) *Objects {
	return &Objects{client: c, source: source, max: max, keys: keys, doubts: doubts}
}

// Write implements Store.
func (o *Objects) Write(ctx context.Context, r *Report) (full bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ring, err := o.keys.Ring(ctx)
	if err != nil {
		return false, fmt.Errorf("seal the EphemeralReport: %w", err)
	}
	for range attempts {
		object, spec := newObject(r, o.source)
		at := client.ObjectKeyFromObject(object)
		wanted := object.DeepCopyObject().(client.Object)
		err = o.client.Get(ctx, at, object)
		switch {
		case apierrors.IsNotFound(err):
			if full, err = o.full(ctx); full || err != nil {
				return full, err
			}
			fill(spec, r)
			sealReport(ring, object, o.doubts.Now())
			o.exist++
			err = o.client.Create(ctx, object)
		case err == nil:
			doubt, why := Check(ctx, o.keys, object)
			switch {
			case doubt: // its content is not ours, and must not get our seal
				o.doubts.Report(object, why)
				*spec = reportsv1.EphemeralReportSpec{}
				object.SetLabels(nil)
				object.SetAnnotations(nil)
				object.SetOwnerReferences(nil)
			case why != nil:
				return false, fmt.Errorf("check the EphemeralReport: %w", why)
			}
			object.SetLabels(over(object.GetLabels(), wanted.GetLabels()))
			object.SetAnnotations(over(object.GetAnnotations(), wanted.GetAnnotations()))
			if len(object.GetOwnerReferences()) == 0 {
				object.SetOwnerReferences(wanted.GetOwnerReferences())
			}
			if !fill(spec, r) && !doubt {
				return false, nil // it already has these results
			}
			sealReport(ring, object, o.doubts.Now())
			err = o.client.Update(ctx, object)
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return false, nil // a namespace that is being deleted deletes the resource, too
	}
	return false, fmt.Errorf("write the EphemeralReport: %w", err)
}

func over(base, top map[string]string) map[string]string {
	if base == nil {
		base = map[string]string{}
	}
	maps.Copy(base, top)
	return base
}

// full reports whether the maximum number of objects exists.
func (o *Objects) full(ctx context.Context) (bool, error) {
	if time.Since(o.counted) > countEvery {
		n := 0
		for _, list := range []client.ObjectList{&reportsv1.EphemeralReportList{}, &reportsv1.ClusterEphemeralReportList{}} {
			// Request one object and the count of the remaining ones, which the API server need not read for that.
			if err := o.client.List(ctx, list, client.Limit(1)); err != nil {
				return false, fmt.Errorf("count the EphemeralReports: %w", err)
			}
			if rest := list.GetRemainingItemCount(); rest != nil {
				n += int(*rest)
			}
			n += meta.LenList(list)
		}
		o.counted, o.exist = time.Now(), n
	}
	return o.exist >= o.max, nil
}
