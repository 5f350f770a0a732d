// Package conformance tests Ephor against public test data: the Kyverno sample policies with their own tests, recordings of the results of
// Kyverno's command line for generated resources, and for random conditions.
//
//	make conformance                          # or: go test -v ./conformance/
//	EPHOR_CONFORMANCE=/data go test ./conformance/ -run 'TestConformance/differential/pod-security'
//
// Every case runs through the command line itself (`apply --policy-report`). A case whose policies need a feature that Ephor does not have
// yet is not run. Compile decides that, never a list of names, so that a case counts as soon as its feature exists. The data are not part
// of the repository: EPHOR_CONFORMANCE names their folder (default ../shared/conformance next to the repository), and with
// EPHOR_CONFORMANCE=none nothing runs. Registries are those of internal/sigverify/fixture, under the names of the real ones; their keys,
// certificates and digests replace those in a copy of the data.
//
// TestConformancePolicies runs lint, apply and convert --prove over every policy of the data and of the examples.
//
// It does not test the texts of denials, and it proves nothing about admission: the end-to-end tests do.
package conformance
