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

	reportsv1 "github.com/ephor-dev/ephor/api/reports/v1"
)

const (
	// attempts limits the retries of writes that conflict with another writer's.
	attempts = 3
	// writeTimeout bounds the writing of one object.
	writeTimeout = 10 * time.Second
	// countEvery is how long the number of objects is believed, with what was written since.
	countEvery = 5 * time.Second
)

// Objects is a Store that keeps each Report in an EphemeralReport or ClusterEphemeralReport. It is for one goroutine.
type Objects struct {
	client client.Client
	source Source
	max    int
	keys   Keys
	doubts *Doubts

	counted time.Time
	exist   int // as counted, and what was written since
}

// NewStore returns a Store of the objects of a source; max is how many of all sources there may be. The client reads past
// any cache, and its scheme knows reports.kyverno.io/v1. Each object is sealed with the current key of keys; doubts is
// called for objects that were in its place and were not ours.
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
			case doubt: // what it says is not ours, and would be with our seal
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
				return false, nil // it says so already
			}
			sealReport(ring, object, o.doubts.Now())
			err = o.client.Update(ctx, object)
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return false, nil // a namespace that goes away takes the resource with it
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

// full reports whether there are as many objects as there may be.
func (o *Objects) full(ctx context.Context) (bool, error) {
	if time.Since(o.counted) > countEvery {
		n := 0
		for _, list := range []client.ObjectList{&reportsv1.EphemeralReportList{}, &reportsv1.ClusterEphemeralReportList{}} {
			// One object and how many more there are: the API server does not read them for that.
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
