package status

import (
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
)

// ExceptionFlags select the exceptions that have an effect. Users who can write exceptions can disable rules, so no exception has an
// effect until an administrator sets the namespaces.
type ExceptionFlags struct {
	Enabled   bool
	Namespace string
	Approval  bool
}

// allNamespaces is the value for the namespace of exceptions that accepts exceptions of every namespace.
const allNamespaces = "*"

// Register adds the flags.
func (f *ExceptionFlags) Register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.Enabled, "enablePolicyException", false, "apply the PolicyExceptions in the namespace of --exceptionNamespace")
	fs.StringVar(&f.Namespace, "exceptionNamespace", "", "namespace whose PolicyExceptions apply; * for all namespaces, empty for none")
	fs.BoolVar(&f.Approval, "exceptionApproval", false, "apply only PolicyExceptions that a user with the verb approve on policyexceptions wrote or approved")
}

// On reports whether any exceptions are applied.
func (f *ExceptionFlags) On() bool { return f.Enabled && f.Namespace != "" }

// Accepts reports whether the exceptions of a namespace are applied.
func (f *ExceptionFlags) Accepts(namespace string) bool {
	return f.On() && (f.Namespace == allNamespaces || f.Namespace == namespace)
}

// Transform packs exceptions before they are cached. It removes the content of those without effect, since any user could fill the memory with
// such exceptions.
func (f *ExceptionFlags) Transform(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !compile.OwnsException(u.GetAPIVersion(), u.GetKind()) {
		return stripManagedFields(obj)
	}
	if !f.Accepts(u.GetNamespace()) {
		delete(u.Object, "spec")
		delete(u.Object, "status")
		u.SetAnnotations(nil)
	}
	return intake.Pack(u, "approval"), nil
}

// stripManagedFields removes managedFields, which are often the largest part of an object.
func stripManagedFields(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// Follow returns what follows the exceptions of a process.
func (f *ExceptionFlags) Follow(c *catalog.Catalog, s *settings.Store, seals keystore.Seals) *intake.Exceptions {
	out := &intake.Exceptions{Catalog: c, WarnDays: func() int { return s.Load().Exceptions.WarnDays }}
	if f.Approval {
		out.Approved = approved(seals)
	}
	return out
}

// Watches returns the kinds of exceptions, if they are enabled.
func (f *ExceptionFlags) Watches(follow *intake.Exceptions, t *telemetry.Telemetry, servers *discovery.Servers) []intake.Watch {
	if !f.On() {
		return nil
	}
	follow.Accepts, follow.Log, follow.Now, follow.Server = f.Accepts, t.Log, time.Now, servers.Version
	servers.Changed(func(kubeversion.Minor) { follow.Recompile() })
	return t.TakenAll(telemetry.ExceptionsName, follow.Watches())
}
