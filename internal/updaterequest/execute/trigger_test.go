package execute

import (
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/updaterequest"
	"github.com/ephor-dev/ephor/internal/value"
)

// The worker waits until the API server has stored a request, also if an UpdateRequest has no room for the objects of the request: for those
// of a trigger, of a source, and of a generated object.
func TestLargeObjectsAreAwaited(t *testing.T) {
	const gone = "DELETE" // the object of a deletion has the place of the old object
	for what, x := range map[string]struct {
		operation   admissionv1.Operation
		old, object bool // which objects are in the UpdateRequest
		waits       time.Duration
	}{
		"all of an update":          {"UPDATE", true, true, patience},
		"the old object only":       {"UPDATE", true, false, patience},
		"the new object only":       {"UPDATE", false, true, patience},
		"nothing of an update":      {"UPDATE", false, false, secretPatience},
		"all of a deletion":         {gone, true, false, patience},
		"nothing of a large object": {gone, false, false, patience},
	} {
		for _, role := range []string{"trigger", "source", "generated object"} {
			trigger := triggerSpec("n", "there", "u1")
			about := configMapOf("n", "there", "u1", triggers)
			if role == "generated object" {
				about = markedAs(t, configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1")), "anybody", trigger, false)
			}
			about.Data = map[string]string{"k": "v"}
			objects := []client.Object{about}
			if role == "generated object" {
				objects = append(objects, configMapOf("n", "there", "u1", triggers))
			}
			w, _ := newMarked(t, objects...)
			live := &corev1.ConfigMap{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(about), live); err != nil {
				t.Fatal(err)
			}
			u := workOf(t, "anybody", trigger, x.operation, "u", about)
			if role == "source" {
				u.Labels = map[string]string{updaterequest.LabelSource: ""}
				u.Spec.RuleContext = []kyvernov2.RuleContext{{Rule: "anybody", Synchronize: true, DeleteDownstream: x.operation == gone}}
			}
			r := u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
			content := func(has bool, data string) []byte {
				if !has {
					return nil
				}
				return []byte(value.JSON(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": data}, "metadata": map[string]any{
					"name": about.Name, "namespace": about.Namespace, "uid": string(about.UID), "resourceVersion": live.ResourceVersion,
					"labels": anyMap(about.Labels), "annotations": anyMap(about.Annotations),
				}}))
			}
			r.OldObject.Raw, r.Object.Raw = content(x.old, "v"), content(x.object, "new")
			for _, waited := range []time.Duration{0, x.waits - time.Millisecond, x.waits} {
				one := &task{u: u, RuleContext: updaterequest.Rules(&u.Spec)[0], reads: w.NewReads([]kyvernov2.ResourceSpec{trigger}), waited: waited}
				err := w.one(t.Context(), one)
				if got := errors.As(err, &notYetError{}); got != (waited < x.waits) && !(got && x.operation == gone) {
					t.Errorf("%s, %s: after %s it waits: %v (%v)", role, what, waited, got, err)
				}
			}
		}
	}
}
