package generated

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// What another replica adds to the record is read again after a failure: no later write may announce it.
func TestRecordIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if failures > 0 {
					failures--
					return apierrors.NewTooManyRequests("later", 1)
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
		log := slog.New(slog.DiscardHandler)
		options := origin.Options{Client: c, Namespace: "ephor", Log: log}
		here, other := origin.New(options), origin.New(options)
		other.Add(origin.Entry{Claim: mark.Claim{Policy: "p", Rule: "r"}, Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "x", UID: "u"}})
		if err := other.Store(t.Context()); err != nil {
			t.Fatal(err)
		}
		var stored corev1.ConfigMapList
		if err := c.List(t.Context(), &stored); err != nil || len(stored.Items) != 1 {
			t.Fatal(len(stored.Items), err)
		}
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		found := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: stored.Items[0].ObjectMeta}
		r := &Record{Record: here, metadata: metadatafake.NewSimpleMetadataClient(scheme, found), namespace: "ephor", log: log}
		failures = 2
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.run(ctx) }()
		time.Sleep(time.Minute)
		if n := here.Len(); n != 1 || failures > 0 {
			t.Errorf("%d entries, %d failures are left", n, failures)
		}
		stop()
		<-ended
	})
}

// A part of the record that was deleted while the watch was down is noticed with the next list, as during a watch.
func TestRecordThatIsGoneAtTheNextList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
		log := slog.New(slog.DiscardHandler)
		here := origin.New(origin.Options{Client: c, Namespace: "ephor", Log: log})
		here.Add(origin.Entry{Claim: mark.Claim{Policy: "p", Rule: "r"}, Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "x", UID: "u"}})
		if err := here.Store(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("ephor")); err != nil {
			t.Fatal(err)
		}
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		r := &Record{Record: here, metadata: metadatafake.NewSimpleMetadataClient(scheme), namespace: "ephor", log: log}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.run(ctx) }()
		time.Sleep(time.Minute)
		if n := here.Len(); n != 0 {
			t.Errorf("%d entries are left", n)
		}
		stop()
		<-ended
	})
}
