package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/seal"
)

// The controller merges EphemeralReports into the report of their resource, where the latest result of a rule applies, and drops them if the
// resource does not exist.
func TestEphemeralReportsTaken(t *testing.T) {
	const ns = "taken"
	cluster.Namespace(t, ns)
	must(t, labelled("there", "{}"), "create", "-n", ns, "-f", "-")
	uid := must(t, "", "get", "configmap", "there", "-n", ns, "-o", "jsonpath={.metadata.uid}")
	there := report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: "there", UID: uid}

	send := func(r report.Resource, results ...policyreport.Result) {
		t.Helper()
		_, err := ephemeral.NewStore(reportsClient(t), ephemeral.Admission, 100, reportKeys, doubts()).Write(t.Context(), &ephemeral.Report{
			Resource: r, GVR: schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(r.Kind) + "s"}, Results: results,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	result := func(rule, status string, seconds int64) policyreport.Result {
		r := policyreport.Result{Source: "kyverno", Policy: "p", Rule: rule, Result: policyreport.Status(status)}
		r.Timestamp.Seconds = seconds
		return r
	}
	// take runs a consumer as the user, with a clock that is ahead by the duration, until the given number of EphemeralReports remains.
	take := func(user string, ahead time.Duration, left int) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := consume(t, ctx, user, ahead)
		eventually(t, func() error { return intermediate(t, ns, left) })
		stop()
		<-done
	}
	says := func(want ...string) {
		t.Helper()
		if err := reportSays(t, ns, "there", want...); err != nil {
			t.Error(err)
		}
	}

	send(there, result("x", "fail", 20), result("gone", "fail", 20))
	take("", 0, 0)
	says("p/x fail")
	send(there, result("x", "pass", 10), result("y", "pass", 10))
	take("", 0, 0)
	says("p/x fail", "p/y pass")
	unnamed := there
	unnamed.Name = ""
	send(unnamed, result("x", "pass", 30))
	take("", 0, 0)
	says("p/x pass", "p/y pass")
	unborn := there
	unborn.UID = ""
	send(unborn, result("y", "skip", 40))
	take("", 0, 0)
	says("p/x pass", "p/y skip")

	// A request that did not create its object, and a resource that the user may not read.
	refused := report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: "", UID: "nobody"}
	send(refused, result("x", "pass", 10))
	take("", 0, 1)
	take("", 3*time.Minute, 0)
	must(t, "", "delete", "polr", "--all", "-n", ns)
	send(there, result("x", "pass", 50))
	take("nobody", 0, 0)
	if _, err := reportOf(t, ns, "there"); err == nil {
		t.Error("there is a report about what may not be read")
	}
}

// reportKeys holds the keys with which the tests seal reports and check seals.
var reportKeys = &keystore.Cached{Now: time.Now, Load: func(context.Context) (*seal.Keyring, error) {
	key, err := seal.NewKey(bytes.Repeat([]byte{1}, seal.KeySize))
	if err != nil {
		return nil, err
	}
	return seal.NewKeyring(key)
}}

func doubts() *ephemeral.Doubts {
	return &ephemeral.Doubts{Log: slog.New(slog.DiscardHandler), Now: time.Now}
}

func reportsClient(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), policyreport.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// consume runs a consumer until ctx is done. If a user is given, it reads the resources with the user's rights.
func consume(t *testing.T, ctx context.Context, user string, ahead time.Duration) (done chan struct{}) {
	t.Helper()
	mine, err := metadata.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(cluster.Config)
	as.Impersonate.UserName = user
	resources, err := metadata.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	w := reports.New(reports.Options{
		Client: reportsClient(t), Metadata: mine, Form: reports.PolicyReports, Log: log, Now: time.Now,
		Again: func(schema.GroupKind, string) {},
	})
	c := reports.NewConsumer(reports.ConsumerOptions{
		Writer: w, Client: reportsClient(t), Metadata: resources, Workers: 2, Log: log,
		Wanted: func(schema.GroupKind) func(report.Rule) bool {
			return func(r report.Rule) bool { return r.Name != "gone" }
		},
		Keys: reportKeys, Doubts: doubts(),
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	done = make(chan struct{})
	go func() {
		defer close(done)
		controller.RunRows(ctx, []controller.Row{{Name: "reports", Sources: w.Sources()}, c.Row()}, log, nil)
	}()
	select {
	case <-w.Ready():
	case <-time.After(devcluster.Patience()):
		t.Fatal("the reports are not known")
	}
	return done
}
