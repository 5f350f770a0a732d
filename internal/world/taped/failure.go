package taped

import (
	"context"
	"errors"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Failure is the stored form of an error of a lookup.
type Failure struct {
	// The text of the error.
	Text string `json:"text" proto:"1"`
	// The type that rules distinguish; absent for other errors.
	Cause string `json:"cause,omitempty" proto:"2"`
	// The fields of that type.
	Args []string `json:"args,omitempty" proto:"3"`
}

// The causes of failures.
const (
	causeStatus       = "status" // of the API server
	causePath         = "path"
	causeKind         = "kind"
	causeGlobal       = "global"
	causeProjection   = "projection"
	causeImage        = "image"
	causeUnverified   = "unverified"
	causeUnavailable  = "unavailable"
	causeTimeout      = "timeout"
	causeCancellation = "canceled"
)

// FailureOf returns the stored form of an error.
func FailureOf(err error) *Failure {
	f := &Failure{Text: value.Message(err.Error())}
	var (
		status     apierrors.APIStatus
		path       *world.PathError
		kind       *world.NoKindError
		global     *world.NoGlobalError
		projection *world.NoProjectionError
		image      *world.NoImageError
		unverified *world.UnverifiedError
	)
	switch {
	case errors.As(err, &status):
		s := status.Status()
		f.Cause, f.Args = causeStatus, []string{string(s.Reason), strconv.Itoa(int(s.Code)), value.Message(s.Message)}
	case errors.As(err, &path):
		f.Cause, f.Args = causePath, []string{path.Path, path.Namespace}
	case errors.As(err, &kind):
		f.Cause, f.Args = causeKind, []string{kind.APIVersion, kind.Kind}
	case errors.As(err, &global):
		f.Cause, f.Args = causeGlobal, []string{global.Message}
	case errors.As(err, &projection):
		f.Cause, f.Args = causeProjection, []string{projection.Entry, projection.Projection}
	case errors.As(err, &image):
		f.Cause, f.Args = causeImage, []string{image.Reason}
	case errors.As(err, &unverified):
		f.Cause, f.Args = causeUnverified, []string{unverified.Reason}
	case errors.Is(err, world.ErrUnavailable):
		f.Cause = causeUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		f.Cause = causeTimeout
	case errors.Is(err, context.Canceled):
		f.Cause = causeCancellation
	}
	return f
}

// failed is a recorded error: its text, and the cause that rules distinguish.
type failed struct {
	text  string
	cause error
}

func (e *failed) Error() string { return e.text }
func (e *failed) Unwrap() error { return e.cause }

// Err returns the recorded error.
func (f *Failure) Err() error {
	arg := func(i int) string {
		if i < len(f.Args) {
			return f.Args[i]
		}
		return ""
	}
	out := &failed{text: f.Text}
	switch f.Cause {
	case causeStatus:
		code, _ := strconv.Atoi(arg(1)) // 0 is no code
		out.cause = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReason(arg(0)), Code: int32(code), Message: arg(2)}}
	case causePath:
		out.cause = &world.PathError{Path: arg(0), Namespace: arg(1)}
	case causeKind:
		out.cause = &world.NoKindError{APIVersion: arg(0), Kind: arg(1)}
	case causeGlobal:
		out.cause = &world.NoGlobalError{Message: arg(0)}
	case causeProjection:
		out.cause = &world.NoProjectionError{Entry: arg(0), Projection: arg(1)}
	case causeImage:
		out.cause = &world.NoImageError{Reason: arg(0)}
	case causeUnverified:
		out.cause = &world.UnverifiedError{Reason: arg(0)}
	case causeUnavailable:
		out.cause = world.ErrUnavailable
	case causeTimeout:
		out.cause = context.DeadlineExceeded
	case causeCancellation:
		out.cause = context.Canceled
	}
	return out
}
