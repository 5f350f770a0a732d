package controller

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A list goes on with the token of the answer 410, once for each token.
func TestGoesOn(t *testing.T) {
	expired := func(token string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410, ListMeta: metav1.ListMeta{Continue: token},
		}}
	}
	for _, c := range []struct {
		name      string
		err       error
		old, want string
	}{
		{"in the middle", expired("rest"), "old", "rest"},
		{"wrapped", fmt.Errorf("list: %w", expired("rest")), "old", "rest"},
		{"without a token", expired(""), "old", ""},
		{"the same again", expired("old"), "old", ""},
		{"at the first page", expired("rest"), "", ""},
		{"another status", apierrors.NewForbidden(schema.GroupResource{}, "x", nil), "old", ""},
		{"another error", errors.New("no connection"), "old", ""},
		{"no error", nil, "old", ""},
	} {
		token := c.old
		if ok := goesOn(c.err, &token); ok != (c.want != "") || ok && token != c.want || !ok && token != c.old {
			t.Errorf("%s: %v, %q", c.name, ok, token)
		}
	}
}

// A watch that ends at once, or fails, is opened less and less often; one that lasted is opened again at once.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pause{First: time.Second, Longest: time.Minute}
		watches := func(lasts time.Duration) (n int) {
			for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); n++ {
				began := time.Now()
				time.Sleep(lasts)
				p.After(t.Context(), began)
			}
			return n
		}
		if n := watches(0); n > 16 {
			t.Errorf("%d watches in 10 minutes that end at once", n)
		}
		if n := watches(time.Minute); n != 10 {
			t.Errorf("%d watches of one minute in 10 minutes", n)
		}
		if began := time.Now(); true {
			if p.After(t.Context(), began); time.Since(began) != p.First {
				t.Errorf("after watches that lasted, the pause is %s", time.Since(began))
			}
		}
	})
}
