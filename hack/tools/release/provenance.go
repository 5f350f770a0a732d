package main

import (
	"os"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const provenanceType = "https://slsa.dev/provenance/v1"

// provenance writes an in-toto statement about every file so far: from which commit it was built, and how.
func (r *release) provenance() error {
	subjects, err := r.subjects()
	if err != nil {
		return err
	}
	parameters, err := structpb.NewStruct(map[string]any{"version": r.version})
	if err != nil {
		return err
	}
	predicate := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: r.address() + "/blob/main/hack/release.sh", ExternalParameters: parameters,
			ResolvedDependencies: []*statement.ResourceDescriptor{{Uri: "git+" + r.address(), Digest: map[string]string{"gitCommit": r.revision}}},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: r.address() + "/actions/workflows/release.yml"}},
	}
	if err := predicate.Validate(); err != nil {
		return err
	}
	content, err := protojson.Marshal(predicate)
	if err != nil {
		return err
	}
	value := &structpb.Struct{}
	if err := protojson.Unmarshal(content, value); err != nil {
		return err
	}
	s := &statement.Statement{Type: statement.StatementTypeUri, Subject: subjects, PredicateType: provenanceType, Predicate: value}
	if err := s.Validate(); err != nil {
		return err
	}
	text, err := canonical(s)
	if err != nil {
		return err
	}
	return r.put(provenanceName(r.version), text, 0o644)
}

func provenanceName(version string) string { return "ephor_" + version + ".provenance.json" }

// subjects returns the files of the release with their digests.
func (r *release) subjects() ([]*statement.ResourceDescriptor, error) {
	entries, err := os.ReadDir(r.output)
	if err != nil {
		return nil, err
	}
	var subjects []*statement.ResourceDescriptor
	for _, e := range entries {
		sum, err := r.sum(e.Name())
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, &statement.ResourceDescriptor{Name: e.Name(), Digest: map[string]string{"sha256": strings.ToLower(sum)}})
	}
	return subjects, nil
}
