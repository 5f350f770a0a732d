package soak

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const namespace = suite.Namespace

// installation is a control plane with an installation of Ephor, for one test.
type installation struct {
	*testing.T
	*suite.Cluster
}

// install starts a control plane for a test and installs Ephor and a policy; no controller runs yet.
func install(t *testing.T, apiServerFlags ...string) *installation {
	t.Helper()
	p := &installation{t, suite.New(t, suite.Options{APIServerFlags: apiServerFlags})}
	p.apply(suite.RequireTeam)
	return p
}

// installAgain restores missing parts of the installation and the policy.
func (p *installation) installAgain() {
	p.Helper()
	if err := p.Install(p.Context(), ""); err != nil {
		p.Fatal(err)
	}
	p.apply(suite.RequireTeam)
}

// start starts n replicas of the admission controller and waits until the policy is enforced.
func (p *installation) start(n int, args ...string) []*devcluster.Replica {
	p.Helper()
	return p.StartEnforcing(p.T, n, args...)
}

// reviews returns the URL at which a replica answers reviews of the webhook that fails closed; start the replica with devcluster.LongPaths
// if the URL has to stay valid.
func (p *installation) reviews(r *devcluster.Replica) string {
	p.Helper()
	path, err := p.Ephor.WebhookPath(p.Context(), devcluster.Admission, "/validate/fail")
	if err != nil {
		p.Fatal(err)
	}
	return "https://" + r.Addr + path + "?timeout=10s"
}

func (p *installation) kubectl(args ...string) string {
	p.Helper()
	return p.Must(p.T, "", args...)
}

func (p *installation) apply(manifests string) {
	p.Helper()
	p.Must(p.T, manifests, "apply", "-f", "-")
}

// podSecurity applies the 18 policies of examples/pod-security and waits until a bad Pod is refused.
func (p *installation) podSecurity() {
	p.Helper()
	root, err := devcluster.Root()
	if err != nil {
		p.Fatal(err)
	}
	p.kubectl("apply", "-f", filepath.Join(root, "examples", "pod-security"))
	p.kubectl("wait", "--for=condition=Ready", "clusterpolicies", "--all")
	p.kubectl("create", "serviceaccount", "shop")
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
