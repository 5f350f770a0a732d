package certificate

import (
	"encoding/asn1"
	"slices"
	"strconv"
	"strings"
)

// Fulcio is the arc of object identifiers that contains the extensions of Fulcio's certificates.
var Fulcio = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1}

const (
	fulcioOtherName = 7 // not an extension but a kind of subject
	fulcioLast      = 22
)

// fulcioNames maps the names that policies use for extensions to their numbers.
var fulcioNames = map[string]int{
	"oidcIssuer": 1, "githubWorkflowTrigger": 2, "githubWorkflowSha": 3, "githubWorkflowName": 4, "githubWorkflowRepository": 5, "githubWorkflowRef": 6,
}

// FulcioExtension finds an extension of Fulcio by its name or number, as policies write it.
func FulcioExtension(name string) (asn1.ObjectIdentifier, bool) {
	n, ok := fulcioNames[name]
	if !ok {
		last, found := strings.CutPrefix(name, Fulcio.String()+".")
		var err error
		if n, err = strconv.Atoi(last); !found || err != nil || n < 1 || n > fulcioLast || n == fulcioOtherName {
			return nil, false
		}
	}
	return append(slices.Clone(Fulcio), n), true
}
