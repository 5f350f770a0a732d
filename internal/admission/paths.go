package admission

import (
	"context"
	"net/http"

	"ephor.invalid/ephor/internal/secretpath"
)

// Paths decides which paths the server answers: secretpath.Guard if the paths have a secret segment, otherwise secretpath.Open.
type Paths interface {
	// Prove returns the path without its segment, and whether the server answers requests for it. It must be quick, and safe for
	// concurrent use.
	Prove(path string) (plain string, v secretpath.Verdict)
}

// notFound is the body of the response to a path that the server does not answer.
var notFound = []byte("404 page not found\n")

// proved forwards only requests whose path proves that the sender can read the webhook configurations. It runs before any code that reads
// the body, allocates, logs or counts by path. Later handlers see only the plain path, so no log, metric or trace contains a segment.
// Probes have no segment.
func (s *Server) proved(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if _, _, secret := secretpath.Split(r.URL.Path); secret {
				refuse(w) // reviews are POST requests, and a trace would show the path
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		plain, v := s.Paths.Prove(r.URL.Path)
		if !v.Secret() {
			s.Observer.Path(v)
		}
		if !v.Answered() {
			refuse(w)
			return
		}
		if v == secretpath.Ending {
			r = r.WithContext(context.WithValue(r.Context(), endingKey{}, true))
		}
		r.URL.Path, r.URL.RawPath, r.RequestURI = plain, "", plain
		next.ServeHTTP(w, r)
	})
}

// refuse answers 404 and ends the connection, so that the server does not wait for a body.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(notFound)
}

// endingKey is the key of a value in the context of requests whose path ends soon anyway.
type endingKey struct{}

// failing returns the function that reports that the API server may have given up on a review. A path that ends anyway need not end sooner:
// otherwise a client that was shown a path could end the next ones, too.
func (s *Server) failing(r *http.Request) func() {
	if r.Context().Value(endingKey{}) != nil {
		return func() {}
	}
	return s.lost
}

// failed reports that the API server may have given up on a review.
func (s *Server) failed() {
	if s.Failed != nil {
		s.Failed()
	}
}
