package preflight

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/charts"
	"ephor.invalid/ephor/internal/bounded"
)

// release is the part of a Helm release, stored in a Secret, that the checks need.
type release struct {
	Name    string         `json:"name"`
	Version int            `json:"version"`
	Config  map[string]any `json:"config"` // the values that the user gave
	Info    struct {
		Status string `json:"status"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
	} `json:"chart"`

	secret Object
}

// maxRelease bounds the unpacked size of a release, whose Secret the API server limits to 1 MiB.
const maxRelease = 64 << 20

// ownChart is the name of Ephor's chart: its releases need no migration.
const ownChart = "ephor"

func (s *state) checkRelease(ctx context.Context) {
	var secrets corev1.SecretList
	kind := Object{Kind: "Secret", Namespace: s.Namespace}
	if err := s.Reader.List(ctx, &secrets, client.InNamespace(s.Namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
		s.unread(kind, fmt.Errorf("the values of the Helm release are not known: %w", err))
		return
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if !latest(secret, secrets.Items) {
			continue
		}
		r, err := readRelease(secret)
		if err != nil {
			s.unread(Object{Kind: "Secret", Namespace: s.Namespace, Name: secret.Name}, err)
			continue
		}
		switch r.Chart.Metadata.Name {
		case "kyverno", ownChart:
			s.release = r
			s.describe(r)
		case "kyverno-policies":
			s.describePolicies(r)
		}
	}
}

// latest reports whether the Secret holds the last revision of its release.
func latest(secret *corev1.Secret, all []corev1.Secret) bool {
	version := func(s *corev1.Secret) int {
		n, _ := strconv.Atoi(s.Labels["version"])
		return n
	}
	for i := range all {
		if all[i].Labels["name"] == secret.Labels["name"] && version(&all[i]) > version(secret) {
			return false
		}
	}
	return true
}

// readRelease decodes what Helm stores: JSON, compressed, in base64.
func readRelease(secret *corev1.Secret) (*release, error) {
	packed, err := base64.StdEncoding.DecodeString(string(secret.Data["release"]))
	if err != nil {
		return nil, fmt.Errorf("the release is not in base64: %w", err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("the release is not compressed: %w", err)
	}
	text, err := bounded.Read(unpacked, maxRelease)
	if err != nil {
		return nil, fmt.Errorf("the release cannot be unpacked: %w", err)
	}
	r := &release{secret: Object{Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name}}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("the release is not JSON: %w", err)
	}
	return r, nil
}

func (s *state) describe(r *release) {
	chart := r.Chart.Metadata.Name + " " + r.Chart.Metadata.Version
	s.add(Finding{
		Code: "helm-release", Severity: Note, Object: r.secret,
		Message: fmt.Sprintf("the Helm release %s, revision %d, of the chart %s owns the installation; `helm uninstall` deletes all definitions that its own record does not keep, whatever annotations they have in the cluster: upgrade, never uninstall", r.Name, r.Version, chart),
	})
	if strings.HasPrefix(r.Info.Status, "pending") || r.Info.Status == "uninstalling" {
		s.add(Finding{
			Code: "helm-release-pending", Severity: Stops, Object: r.secret,
			Message:  fmt.Sprintf("the release is %s: Helm refuses another operation", r.Info.Status),
			Commands: []string{fmt.Sprintf("helm rollback %s -n %s", r.Name, s.Namespace)},
		})
	}
	if r.Chart.Metadata.Name == ownChart {
		return
	}
	s.values(r, charts.Ephor)
}

// describePolicies describes a release of Kyverno's chart of policies.
func (s *state) describePolicies(r *release) {
	s.add(Finding{
		Code: "helm-release", Severity: Note, Object: r.secret,
		Message: fmt.Sprintf("the Helm release %s, revision %d, of the chart %s %s has policies of the Pod Security Standards; the chart ephor-policies adopts it, and the policies stay the same objects", r.Name, r.Version, r.Chart.Metadata.Name, r.Chart.Metadata.Version),
		Commands: []string{
			fmt.Sprintf("helm get values %s -n %s -o yaml > policies-values.yaml", r.Name, s.Namespace),
			fmt.Sprintf("helm upgrade %s charts/ephor-policies -n %s -f policies-values.yaml", r.Name, s.Namespace),
		},
	})
	s.values(r, charts.Policies)
}

// values reports the values of a release that a chart of Ephor refuses, or accepts without effect.
func (s *state) values(r *release, chart string) {
	refused, idle, err := charts.Values(chart, r.Config)
	if err != nil {
		s.unread(r.secret, err)
		return
	}
	show := fmt.Sprintf("helm get values %s -n %s -o yaml > values.yaml", r.Name, s.Namespace)
	for _, v := range refused {
		s.add(Finding{
			Code: "values-refused", Severity: Stops, Object: r.secret,
			Message:  fmt.Sprintf("the value %s: %s; Helm refuses the upgrade with it", v.Path, cmp.Or(v.Reason, "the chart of Ephor does not know it")),
			Commands: []string{show + "   # and take " + v.Path + " out of the file"},
		})
	}
	if len(idle) > 0 {
		paths := make([]string, len(idle))
		for i, v := range idle {
			paths[i] = v.Path
		}
		s.add(Finding{
			Code: "values-without-effect", Severity: Note, Object: r.secret,
			Message: "accepted without effect: " + strings.Join(paths, ", "),
		})
	}
}
