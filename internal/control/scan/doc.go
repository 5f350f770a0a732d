// Package scan connects the scans with the rest of the reports controller: the policies of the API server, namespaces, events and statuses.
//
//	kinds, err := flags.Kinds(discovery)                        // the kinds of policies of the API server that are scanned
//	once := scan.WriteOmissions(scanner, policies, client)      // what scans leave out, to the status of policies
//
// Package scan of the floor below evaluates objects.
//
// Floor 8: imports the floors below.
package scan
