package app

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/policy"
)

var exceptionGVK = schema.GroupVersionKind{Group: "kyverno.io", Version: "v2", Kind: "PolicyException"}

// exceptionFlags say which exceptions have an effect. A user who may write an exception may disable rules, so none has
// an effect until an administrator names the namespaces.
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

// transform is for a cache: it keeps the contents of the exceptions that count, and of no others, since any user may fill
// memory with those.
func (f *exceptionFlags) transform(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.GroupVersionKind() == exceptionGVK && !f.accepts(u.GetNamespace()) {
		delete(u.Object, "spec")
		u.SetAnnotations(nil)
	}
	return stripManagedFields(obj)
}

// exceptions follows the PolicyExceptions: it compiles what is new or changed and gives it to the catalog, which joins
// it to the rules.
type exceptions struct {
	flags   exceptionFlags
	catalog *catalog.Catalog
	log     *slog.Logger
}

// handler is for the informer of exceptions.
func (x *exceptions) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { x.set(nil, obj) },
		UpdateFunc: func(old, obj any) {
			before, _ := old.(*unstructured.Unstructured)
			x.set(before, obj)
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if u, ok := obj.(*unstructured.Unstructured); ok {
				x.drop(u)
			}
		},
	}
}

func (x *exceptions) set(old *unstructured.Unstructured, obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || !x.flags.accepts(u.GetNamespace()) || old != nil && sameContent(old, u) {
		return
	}
	key := u.GetNamespace() + "/" + u.GetName()
	e, err := x.compile(u)
	if err != nil {
		// The rules are stricter without it, and what it was before is no longer what its author wants.
		x.log.Error("exception cannot be used", "exception", key, "error", err)
		x.catalog.DeleteException(key)
		return
	}
	x.catalog.SetException(e)
	x.log.Info("exception in force", "exception", key)
}

func (x *exceptions) drop(u *unstructured.Unstructured) {
	key := u.GetNamespace() + "/" + u.GetName()
	x.catalog.DeleteException(key)
	x.log.Info("exception gone", "exception", key)
}

// compile must not take the process down, whatever the exception says.
func (x *exceptions) compile(u *unstructured.Unstructured) (e *policy.Exception, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the compiler panicked: %v", v)
			x.log.Error("the compiler panicked", "exception", u.GetName(), "panic", v, "stack", string(debug.Stack()))
		}
	}()
	e, diags := compile.OneException(compile.Object{Value: u.Object})
	return e, diags.Err()
}
