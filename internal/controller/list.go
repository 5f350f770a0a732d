package controller

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/bounded"
)

// Page is one page of a list, as the list types of the API machinery are.
type Page interface {
	GetResourceVersion() string
	GetContinue() string
}

// ErrEnough is the error of a function that needs no further pages.
var ErrEnough = errors.New("no further pages are needed")

// Pages lists objects page by page, hands each page over, and returns the resource version of the first page. A list that takes longer
// than the API server keeps its state goes on with the rest. While a page is larger than list reads (bounded.Exceeded), it is read again with fewer
// objects; after a page that fits, there are more again.
func Pages[P Page](ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (P, error), each func(P) error) (version string, err error) {
	for most := options.Limit; ; options.Limit = min(most, 2*options.Limit) {
		page, err := list(ctx, options)
		for bounded.Exceeded(err) && options.Limit > 1 {
			options.Limit = max(1, options.Limit/8)
			page, err = list(ctx, options)
		}
		if goesOn(err, &options.Continue) {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = each(page)
		}
		switch {
		case err == ErrEnough:
			return version, nil
		case err != nil:
			return "", err
		case version == "":
			version = page.GetResourceVersion()
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return version, nil
		}
	}
}

// goesOn reports whether a paged list goes on after the error of a page, and then sets its continue token. The API server keeps the state of
// a list for some minutes only. Then it answers 410 with a token for the rest of the list in its current state, so that a list that takes
// longer does not start again at its first page. No object that exists all the time is left out.
func goesOn(err error, token *string) bool {
	var status apierrors.APIStatus
	if *token == "" || !errors.As(err, &status) || !apierrors.IsResourceExpired(err) {
		return false
	}
	next := status.Status().ListMeta.Continue
	if next == "" || next == *token {
		return false
	}
	*token = next
	return true
}
