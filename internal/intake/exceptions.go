package intake

import (
	"log/slog"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/exception"
)

// Exceptions follows the PolicyExceptions of some namespaces: it compiles what is new or changed and gives it to the catalog, which
// joins it to the rules.
type Exceptions struct {
	// Accepts reports whether the exceptions of a namespace count.
	Accepts func(namespace string) bool
	Catalog *catalog.Catalog
	Log     *slog.Logger

	objects objects
}

// Watches are the informers that the exceptions come from.
func (x *Exceptions) Watches() []Watch {
	x.objects = objects{
		log: x.Log, accept: func(u *unstructured.Unstructured) bool { return x.Accepts(u.GetNamespace()) },
		take: x.take, drop: x.drop, seen: func() {},
	}
	gvk := schema.GroupVersionKind{Group: exception.Group, Version: exception.Versions[0], Kind: exception.Kind}
	return []Watch{{Object: Object(gvk), Resource: "policyexceptions", Older: exception.Versions[1:], Optional: true, Handler: x.objects.handler()}}
}

func (x *Exceptions) take(_, u *unstructured.Unstructured) (err error) {
	key := idOf(u).Key()
	defer func() {
		if v := recover(); v != nil {
			x.Catalog.DeleteException(key)
			panic(v)
		}
	}()
	e, diags := compile.OneException(compile.Object{Value: u.Object})
	if err := diags.Err(); err != nil {
		// The rules are stricter without it, and what it was before is no longer what its author wants.
		x.Catalog.DeleteException(key)
		return err
	}
	x.Catalog.SetException(e)
	x.Log.Info("exception in force", "exception", key)
	return nil
}

func (x *Exceptions) drop(u *unstructured.Unstructured) {
	key := idOf(u).Key()
	x.Catalog.DeleteException(key)
	x.Log.Info("exception gone", "exception", key)
}
