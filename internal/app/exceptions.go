package app

import (
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ephor.invalid/ephor/internal/compile"
)

// exceptionFlags select the exceptions that have an effect. Users who can write exceptions can disable rules, so no exception has an
// effect until an administrator sets the namespaces.
type exceptionFlags struct {
	enabled   bool
	namespace string
	approval  bool
}

// allNamespaces is the value for the namespace of exceptions that accepts exceptions of every namespace.
const allNamespaces = "*"

func (f *exceptionFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.enabled, "enablePolicyException", false, "apply the PolicyExceptions in the namespace of --exceptionNamespace")
	fs.StringVar(&f.namespace, "exceptionNamespace", "", "namespace whose PolicyExceptions apply; * for all namespaces, empty for none")
	fs.BoolVar(&f.approval, "exceptionApproval", false, "apply only PolicyExceptions that a user with the verb approve on policyexceptions wrote or approved")
}

// on reports whether any exceptions are applied.
func (f *exceptionFlags) on() bool { return f.enabled && f.namespace != "" }

// accepts reports whether the exceptions of a namespace are applied.
func (f *exceptionFlags) accepts(namespace string) bool {
	return f.on() && (f.namespace == allNamespaces || f.namespace == namespace)
}

// transform removes the content of exceptions without effect before they are cached, since any user could fill the memory with such
// exceptions.
func (f *exceptionFlags) transform(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && compile.OwnsException(u.GetAPIVersion(), u.GetKind()) && !f.accepts(u.GetNamespace()) {
		delete(u.Object, "spec")
		u.SetAnnotations(nil)
	}
	return stripManagedFields(obj)
}
