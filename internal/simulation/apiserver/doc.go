// Package apiserver answers requests of Kubernetes clients from memory, as an API server does, without sockets and on the clock of its caller.
//
//	s := apiserver.New(apiserver.Options{Resources: apiserver.Builtin()})
//	cfg := s.Client("background-0").Config()      // a rest.Config whose transport is the server itself
//	s.Fault = func(q *apiserver.Request) apiserver.Fault { … }
//
// It keeps to what the documentation of the API promises: resource versions, lists in pages whose token expires, watches with bookmarks,
// conflicts, generateName, JSON patches, merge patches, server-side apply, status subresources, finalizers, owner references, dry run,
// discovery, rights, webhooks and custom kinds. It knows no schemas: objects are not validated, and have no defaults except those of Defaults.
//
// All times are those of package time, so that a test in a bubble of testing/synctest is finished in an instant.
//
// Beside the floors: only the simulation imports it.
package apiserver
