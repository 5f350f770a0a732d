package preflight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/policyreview"
	"github.com/ephor-dev/ephor/internal/settings"
)

// Cluster is the cluster that is looked at.
type Cluster struct {
	Reader client.Reader
	// Kinds are those that the API server serves.
	Kinds policyreview.Discovery
	// Version is that of the API server, such as v1.34.1.
	Version string
	// Namespace is that of the installation.
	Namespace string
	Log       *slog.Logger
	Now       func() time.Time
}

// Scheme has the types that the checks read.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic("preflight: " + err.Error()) // the types are those of Kubernetes
		}
	}
	return s
}

// Bounds of what is read of one kind.
const (
	pageSize   = 250
	maxObjects = 20_000
)

var errTooMany = fmt.Errorf("there are more than %d objects; the others were not looked at", maxObjects)

// each hands over all objects of a kind, page by page.
func (c *Cluster) each(ctx context.Context, gvk schema.GroupVersionKind, give func(*unstructured.Unstructured), options ...client.ListOption) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	seen, next := 0, ""
	for {
		if err := c.Reader.List(ctx, list, append(options, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return absent(err)
		}
		for i := range list.Items {
			give(&list.Items[i])
		}
		if seen += len(list.Items); seen >= maxObjects && list.GetContinue() != "" {
			return errTooMany
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// count is the number of objects of a kind.
func (c *Cluster) count(ctx context.Context, gvk schema.GroupVersionKind) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	n, next := 0, ""
	for {
		if err := c.Reader.List(ctx, list, client.Limit(pageSize), client.Continue(next)); err != nil {
			return 0, absent(err)
		}
		n += len(list.Items)
		if left := list.GetRemainingItemCount(); left != nil {
			return n + int(*left), nil
		}
		if next = list.GetContinue(); next == "" || n >= maxObjects {
			return n, nil
		}
	}
}

// absent turns "the API server has no such kind" into no error: there are no such objects.
func absent(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// state is what the checks share.
type state struct {
	*Cluster
	findings    []Finding
	definitions []definition
	release     *release
	settings    *settings.Settings // nil without a ConfigMap
}

func (s *state) add(f Finding) { s.findings = append(s.findings, f) }

// unread notes that a part of the cluster could not be read.
func (s *state) unread(o Object, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	message := "it could not be read: " + err.Error()
	s.add(Finding{Code: "not-checked", Severity: Unknown, Object: o, Message: message})
}

// checks are all checks, in the order in which they are made: the release and the definitions first, which others use.
var checks = []func(*state, context.Context){
	(*state).checkVersion, (*state).checkRelease, (*state).checkDefinitions, (*state).checkManagers, (*state).checkWebhooks, (*state).checkLeases,
	(*state).checkCertificates, (*state).checkSettings, (*state).checkPolicies, (*state).checkWork,
}

// Run looks at the cluster. It changes nothing.
func Run(ctx context.Context, c *Cluster) *Report {
	s := &state{Cluster: c}
	for _, check := range checks {
		check(s, ctx)
	}
	r := &Report{Findings: s.findings}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	r.sort()
	return r
}
