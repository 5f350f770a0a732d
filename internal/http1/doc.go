// Package http1 answers the requests of a keep-alive connection (HTTP/1.1) one after the other, in one goroutine.
//
// net/http watches a connection while a handler runs, to cancel the request's context when the client disconnects. For each request, that
// costs a goroutine, a read, two deadlines and their thread switches. A review takes a tenth of a millisecond and has its own deadline, so
// the watch would cost as much as reading and evaluating an object. Therefore:
//
//	server := http1.Harden(&http.Server{Handler: &http1.Handler{Handler: reviews, Idle: time.Minute, Read: time.Second, Write: time.Second}})
//	err := server.ServeTLS(http1.Bound(l, http1.Limits{}), "", "")
//
// net/http accepts connections, does the handshake and reads the first request. If that is a POST of HTTP/1.1 with a length, this package
// takes the connection over, and answers this request and the following ones. Anything else, such as a probe, stays with net/http. net/http
// parses the requests in both cases.
//
// Bound limits the connections of clients that have not identified themselves, and Harden what a server reads before it has identified the
// client.
//
// Watch reports when a client ends the connection while its request is handled: a look at the socket before the response is written, and from
// time to time while the handler takes long.
//
// Deliberately missing: the context of a request does not end when its client disconnects; a response is buffered until the handler
// returns, so there is no streaming, no Flush and no Hijack; and HTTP/2.
//
// Floor 4: imports nothing of ours.
package http1
