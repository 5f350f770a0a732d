// Package scan evaluates what exists already: every resource of the kinds that policies with background: true name, again
// when it, a policy or an exception changes, and all of it once per interval.
//
//	s := scan.New(scan.Options{Catalog: catalog, Resources: discovery, Dynamic: client, Metadata: client, Sink: writer, …})
//	err := s.Run(ctx)
//
// Each kind is listed in pages, whose objects are evaluated as they come, and then watched as metadata. What is kept of
// an object is a hash of its content and the revision of the set of policies that evaluated it, so that memory grows
// with the number of resources by some bytes each, and not with their size. What neither changed in content nor in
// policies is not evaluated again before the interval is over; where only some policies changed, or what they look up,
// it is evaluated by those. Several processes share the namespaces (Share).
//
// The package writes no reports (package reports does, as its Sink), does not choose the words of results (the rules do),
// and leaves kinds alone that it may not list, but names them.
//
// Floor 7: imports floors 0–6.
package scan
