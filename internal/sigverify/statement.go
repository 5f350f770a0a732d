package sigverify

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// statement is an in-toto statement.
type statement struct {
	Type    string `json:"_type"`
	Subject []struct {
		Digest      map[string]string `json:"digest"`
		Annotations map[string]any    `json:"annotations"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`

	payload []byte
}

// Limits for statements, the same as in Sigstore's libraries.
const (
	maxSubjects       = 1024
	maxSubjectDigests = 32

	typeInToto      = "application/vnd.in-toto+json"
	statementPrefix = "https://in-toto.io/Statement/"
	predicateCustom = "https://cosign.sigstore.dev/attestation/v1"
	predicateBare   = "cosign.sigstore.dev/attestation/v1"
)

func parseStatement(mediaType string, payload []byte) (*statement, error) {
	if mediaType != typeInToto {
		return nil, fmt.Errorf("the payload is not a statement but %q", mediaType)
	}
	s := &statement{payload: payload}
	if err := json.Unmarshal(payload, s); err != nil {
		return nil, fmt.Errorf("the statement cannot be read: %w", err)
	}
	// The meaning of other statement versions is unknown.
	if version, ok := strings.CutPrefix(s.Type, statementPrefix); !ok || version != "v1" && version != "v0.1" {
		return nil, fmt.Errorf("the statement has the type %q; supported are %[2]sv1 and %[2]sv0.1", s.Type, statementPrefix)
	}
	if len(s.Subject) > maxSubjects {
		return nil, fmt.Errorf("the statement has more than %d subjects", maxSubjects)
	}
	for _, subject := range s.Subject {
		if len(subject.Digest) > maxSubjectDigests {
			return nil, fmt.Errorf("a subject of the statement has more than %d digests", maxSubjectDigests)
		}
	}
	return s, nil
}

// about returns the annotations of the subjects that are the image. It returns none if the statement is not about the image.
func (s *statement) about(digest v1.Hash) (annotations []map[string]any) {
	for _, subject := range s.Subject {
		if found := subject.Digest[digest.Algorithm]; found != "" && found == digest.Hex {
			annotations = append(annotations, subject.Annotations)
		}
	}
	return annotations
}

// decoded returns the statement in the form for policies.
func (s *statement) decoded() (world.Statement, error) {
	document, err := value.DecodeJSON(s.payload)
	if err != nil {
		return world.Statement{}, fmt.Errorf("the statement cannot be read: %w", err)
	}
	fields, ok := document.(map[string]any)
	if !ok {
		return world.Statement{}, fmt.Errorf("the statement is not an object")
	}
	out := world.Statement{Type: s.PredicateType, Predicate: fields["predicate"], Document: document}
	// A predicate without a type of its own is a text, which often contains JSON.
	if s.PredicateType == predicateCustom || s.PredicateType == predicateBare {
		if predicate, ok := out.Predicate.(map[string]any); ok {
			if text, ok := predicate["Data"].(string); ok {
				if data, err := value.DecodeJSON([]byte(text)); err == nil {
					predicate["Data"] = data // the map was decoded above and is not shared
				}
			}
		}
	}
	return out, nil
}
