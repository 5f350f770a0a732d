package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/discovery"
	"github.com/ephor-dev/ephor/internal/exception"
	"github.com/ephor-dev/ephor/internal/family/classic"
	"github.com/ephor-dev/ephor/internal/intake"
	"github.com/ephor-dev/ephor/internal/status"
	"github.com/ephor-dev/ephor/internal/vapgen"
)

// admissionPolicies generates ValidatingAdmissionPolicies from the policies that ask for it. The leader runs it.
type admissionPolicies struct {
	on        bool // --generateValidatingAdmissionPolicy
	policies  *intake.Policies
	catalog   *catalog.Catalog
	resources discovery.Resources
	apply     *vapgen.Reconciler
	status    *status.Writer
	log       *slog.Logger
	settled   bool // what is there was looked at, and nothing of ours was wanted
}

// lookAgainNative is how often generated objects are checked for changes by other clients; retryNative is the pause
// after a failure that may pass.
const (
	lookAgainNative = 10 * time.Minute
	retryNative     = 30 * time.Second
)

const (
	noRightToPolicies = "insufficient permissions to generate ValidatingAdmissionPolicies"
	deniedNative      = "failed to generate ValidatingAdmissionPolicy: "
)

// once is one round. The objects are taken before the snapshot, as for their other status.
func (n *admissionPolicies) once(ctx context.Context) (time.Duration, error) {
	objects, _ := n.policies.All()
	snapshot := n.catalog.Snapshot()
	out, asking := map[string]vapgen.Output{}, map[string]*unstructured.Unstructured{}
	retry := false
	for _, object := range objects {
		p, _ := classic.Decode(object.Object) // the compiler reports what cannot be read
		if object.GetKind() != classic.ClusterPolicy || !vapgen.Asks(p) {
			if generated, _, _ := unstructured.NestedBool(object.Object, "status", "validatingadmissionpolicy", "generated"); generated {
				asking[object.GetName()] = object // it asked, and does not any longer
			}
			continue
		}
		asking[p.Name] = object
		if !n.on {
			continue
		}
		exceptions, ok := exceptionsOf(snapshot, p.Name)
		if !ok {
			retry = true // its Program comes in a moment
			continue
		}
		o, err := vapgen.Generate(vapgen.Input{Policy: p, Exceptions: exceptions, Resources: n.resources})
		if err != nil {
			o, retry = vapgen.Output{Reason: deniedNative + err.Error()}, true
		}
		out[p.Name] = o
	}
	if len(asking) == 0 && n.settled {
		return 0, nil
	}
	failed, err := n.apply.Apply(ctx, out)
	if apierrors.IsForbidden(err) {
		n.log.Warn("ValidatingAdmissionPolicies are not generated", "error", err)
		for name := range out {
			if out[name].Policy != nil {
				out[name] = vapgen.Output{Reason: noRightToPolicies}
			}
		}
		err, retry = nil, true
	}
	n.settled = err == nil && len(asking) == 0
	errs := []error{err}
	for name, object := range asking {
		o := out[name]
		if failure := failed[name]; failure != nil {
			o, retry = vapgen.Output{Reason: deniedNative + failure.Error()}, true
		}
		errs = append(errs, n.status.WriteAdmissionPolicy(ctx, object, o.Policy != nil, o.Reason))
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		return 0, err
	case retry:
		return retryNative, nil
	case len(out) > 0:
		return lookAgainNative, nil
	}
	return 0, nil
}

// exceptionsOf returns the exceptions for the rules of a ClusterPolicy; ok is false while its Program is missing.
func exceptionsOf(s *catalog.Snapshot, name string) (out []*kyvernov2.PolicyException, ok bool) {
	p := s.Get(catalog.ID{Kind: classic.ClusterPolicy, Name: name})
	if p == nil {
		return nil, false
	}
	seen := map[string]bool{}
	for _, r := range p.Rules {
		for _, e := range r.Exceptions {
			if !seen[e.Key()] {
				seen[e.Key()] = true
				decoded, _ := exception.Decode(e.Object) // it was compiled of this
				out = append(out, decoded)
			}
		}
	}
	return out, true
}
