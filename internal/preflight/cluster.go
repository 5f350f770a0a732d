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

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/settings"
)

// Cluster is the cluster to check.
type Cluster struct {
	Reader client.Reader
	// Kinds are the kinds that the API server serves.
	Kinds policyreview.Discovery
	// Version is the version of the API server, such as v1.34.1.
	Version string
	// Namespace is the namespace of the installation.
	Namespace string
	// Live evaluates policies on all objects of the cluster; nil if nothing can. An error comes with what is known.
	Live func(context.Context, []*policy.Program) (map[policy.ID]*Impact, error)
	Log  *slog.Logger
	Now  func() time.Time
}

// Scheme has the types that the checks read.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic("preflight: " + err.Error()) // the types of Kubernetes always register
		}
	}
	return s
}

// The maximum number of objects that are read of one kind, and the size of one page.
const (
	pageSize   = 250
	maxObjects = 20_000
)

var errTooMany = fmt.Errorf("there are more than %d objects; the others were not checked", maxObjects)

// each passes all objects of a kind to give, page by page.
func (c *Cluster) each(ctx context.Context, gvk schema.GroupVersionKind, give func(*unstructured.Unstructured), options ...client.ListOption) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	read := func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		return list, c.Reader.List(ctx, list, append(options, client.Limit(o.Limit), client.Continue(o.Continue))...)
	}
	seen := 0
	_, err := controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, read, func(*unstructured.UnstructuredList) error {
		for i := range list.Items {
			give(&list.Items[i])
		}
		if seen += len(list.Items); seen >= maxObjects && list.GetContinue() != "" {
			return errTooMany
		}
		return nil
	})
	return absent(err)
}

// count returns the number of objects of a kind.
func (c *Cluster) count(ctx context.Context, gvk schema.GroupVersionKind) (int, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	read := func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return list, c.Reader.List(ctx, list, client.Limit(o.Limit), client.Continue(o.Continue))
	}
	n := 0
	_, err := controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, read, func(*metav1.PartialObjectMetadataList) error {
		n += len(list.Items)
		left := list.GetRemainingItemCount()
		if left != nil {
			n += int(*left)
		}
		if left != nil || n >= maxObjects {
			return controller.ErrEnough
		}
		return nil
	})
	if err != nil {
		return 0, absent(err)
	}
	return n, nil
}

// absent returns nil for the error "the API server has no such kind": there are no such objects.
func absent(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// state is the data that the checks share.
type state struct {
	held map[string]int64 // memory of the compiled policies, by namespace
	*Cluster
	findings    []Finding
	definitions []definition
	release     *release
	settings    *settings.Settings // nil without a ConfigMap
	superseded  []*policy.Program  // of the kinds that Kyverno 1.20 does not execute
	executed    bool               // there are webhooks for policies of these kinds
}

func (s *state) add(f Finding) { s.findings = append(s.findings, f) }

// unread adds the finding that a part of the cluster could not be read.
func (s *state) unread(o Object, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	message := "it could not be read: " + err.Error()
	s.add(Finding{Code: "not-checked", Severity: Unknown, Object: o, Message: message})
}

// checks are all checks, in order: the release and the definitions come first, because others use their results.
var checks = []func(*state, context.Context){
	(*state).checkVersion, (*state).checkRelease, (*state).checkDefinitions, (*state).checkManagers, (*state).checkWebhooks, (*state).checkLeases,
	(*state).checkCertificates, (*state).checkSettings, (*state).checkPolicies, (*state).checkLegacy, (*state).checkWork,
}

// Run runs all checks. It changes nothing in the cluster.
func Run(ctx context.Context, c *Cluster) *Report {
	s := &state{Cluster: c}
	for _, check := range checks {
		check(s, ctx)
	}
	return s.report()
}

// report returns the findings so far.
func (s *state) report() *Report {
	r := &Report{Findings: s.findings}
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	r.sort()
	return r
}
