// Package scan evaluates existing resources: all of the kinds that policies with background: true name. It evaluates a resource again when
// it, a policy or an exception changes, and all of them once per interval.
//
//	s := scan.New(scan.Options{Catalog: catalog, Resources: discovery, Objects: client, Metadata: client, Sink: writer, …})
//	rows := s.Rows()
//
// Each kind is listed in pages, whose objects are evaluated at once, and then watched as metadata. The state of an object is a hash of its
// content and the revision of the policies that evaluated it, so memory grows by some bytes for each resource, and not with its size. An
// object without changes in content or policies is not evaluated again before the interval is over. If only some policies changed, or data
// that they look up, only those are evaluated. Several processes share the namespaces (Share).
//
// The package writes no reports (package reports does, as its Sink) and formats no messages (the rules do). It skips kinds that it may not
// list, and reports them.
//
// Floor 7: imports floors 0–6.
package scan
