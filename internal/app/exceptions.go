package app

import (
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ephor-dev/ephor/internal/compile"
)

// exceptionFlags select the exceptions that have an effect. A user who may write an exception may disable rules, so none has an effect
// until an administrator names the namespaces.
type exceptionFlags struct {
	enabled   bool
	namespace string
}

// allNamespaces as the namespace of exceptions accepts those of every namespace.
const allNamespaces = "*"

func (f *exceptionFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.enabled, "enablePolicyException", false, "apply PolicyExceptions, from the namespace of --exceptionNamespace")
	fs.StringVar(&f.namespace, "exceptionNamespace", "", "namespace whose PolicyExceptions are applied; * for all, empty for none")
}

// on reports whether any exceptions are applied.
func (f *exceptionFlags) on() bool { return f.enabled && f.namespace != "" }

// accepts reports whether the exceptions of a namespace are applied.
func (f *exceptionFlags) accepts(namespace string) bool {
	return f.on() && (f.namespace == allNamespaces || f.namespace == namespace)
}

// transform, for a cache, drops the content of exceptions without effect, since any user may fill memory with those.
func (f *exceptionFlags) transform(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && compile.OwnsException(u.GetAPIVersion(), u.GetKind()) && !f.accepts(u.GetNamespace()) {
		delete(u.Object, "spec")
		u.SetAnnotations(nil)
	}
	return stripManagedFields(obj)
}
