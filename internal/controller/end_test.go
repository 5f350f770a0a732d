package controller

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// The goroutine of a watch that is filtered, as watches of metadata are, ends although an event is on its way. The test fails with a deadlock
// of goroutines that remain.
func TestEndOfAFilteredWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		w := watch.Filter(source, func(e watch.Event) (watch.Event, bool) { return e, true })
		go source.Add(&metav1.PartialObjectMetadata{})
		synctest.Wait()
		End(w)
	})
}
