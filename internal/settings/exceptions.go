package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/wildcard"
)

// Exceptions holds what the installation requires of exceptions. The zero value requires nothing.
type Exceptions struct {
	// WarnDays is the number of days before its end from which an exception is reported as ending; 0 for none.
	WarnDays int `json:"warnDays"`
	// Compare: scans also evaluate exempt objects without exceptions, and reports hold that result.
	Compare bool `json:"compare"`
	// RequiredAnnotations are annotations that every exception must have.
	RequiredAnnotations []string `json:"requiredAnnotations"`
	// MaxDays is the longest time from a change of an exception until its end; 0 for no limit.
	MaxDays int `json:"maxDays"`
	// Users and Groups are those who may write exceptions, with wildcards; without any, all whom RBAC permits it.
	Users  []string `json:"users"`
	Groups []string `json:"groups"`
	// Message is what a refusal says beside the reason.
	Message string `json:"message"`
}

// Permits reports whether a user may write exceptions.
func (e *Exceptions) Permits(user string, groups []string) bool {
	return len(e.Users)+len(e.Groups) == 0 || wildcard.MatchAny(e.Users, user) ||
		slices.ContainsFunc(groups, func(g string) bool { return wildcard.MatchAny(e.Groups, g) })
}

func parseExceptions(to *Exceptions, v string) error {
	var e Exceptions
	d := json.NewDecoder(strings.NewReader(v))
	d.DisallowUnknownFields() // a misspelt requirement would require nothing
	if err := d.Decode(&e); err != nil {
		return fmt.Errorf("not a JSON object of the known members: %w", err)
	}
	if _, err := d.Token(); err != io.EOF { // such as a requirement after a brace too many
		return errors.New("not a JSON object of the known members: something follows the object")
	}
	if e.WarnDays < 0 || e.MaxDays < 0 {
		return errors.New("warnDays and maxDays must not be negative")
	}
	for _, key := range e.RequiredAnnotations {
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return fmt.Errorf("%q is not an annotation: %s", key, strings.Join(problems, "; "))
		}
	}
	*to = e
	return nil
}
