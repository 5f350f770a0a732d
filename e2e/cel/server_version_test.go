package cel

import (
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/kubeversion"
)

// The replicas note the version of the API server. An expression that needs a newer one is refused with its version, and accepted where the
// server has it.
func TestServerVersion(t *testing.T) {
	version, err := devcluster.Version()
	if err != nil {
		t.Fatal(err)
	}
	server, err := kubeversion.Parse(version)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "lease", "-n", "kyverno", "ephor-api-servers", "-o", "jsonpath={.metadata.annotations}")
		if err == nil && !strings.Contains(out, server.String()) {
			err = errors.New(out)
		}
		return err
	})
	eventually(t, func() error {
		_, err := kubectl(t, `{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: e2e-includes}, spec: {
		  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
		  validations: [{expression: "object.metadata.name.includes('a')"}]}}`, "create", "--dry-run=server", "-f", "-")
		switch {
		case server >= 37:
			return err
		case err == nil:
			return errNotDenied
		case !strings.Contains(err.Error(), "exist since Kubernetes 1.37; the API server has "+server.String()):
			return err
		}
		return nil
	})
}
