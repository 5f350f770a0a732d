// Package conformance holds Ephor against public test data: the Kyverno sample policies with the tests that they bring,
// recordings of what Kyverno's command line says of generated resources, and of random conditions.
//
//	make conformance                          # or: go test -v ./conformance/
//	EPHOR_CONFORMANCE=/data go test ./conformance/ -run 'TestConformance/differential/pod-security'
//
// Every case runs through the command line itself (`apply --policy-report`). A case whose policies need a feature that
// Ephor does not have yet is not run; what Compile says decides that, never a list of names, so that a case begins to
// count the day its feature is there. The data are not part of the repository: EPHOR_CONFORMANCE names their folder
// (default ../shared/conformance beside the repository), and with EPHOR_CONFORMANCE=none nothing is run. Registries are those of
// internal/sigverify/fixture, under the names of the real ones; keys, certificates and digests in a copy of the data are replaced by theirs.
//
// It does not test the words of refusals, and it proves nothing about admission: the end-to-end tests do.
package conformance
