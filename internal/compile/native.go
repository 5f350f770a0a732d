package compile

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family/native"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Native reports whether objects of the kind are policies, or bindings, of the API server itself. They belong together,
// and the API server runs them in a cluster, so that they are not among Families.
func Native(apiVersion, kind string) (isPolicy, isBinding bool) {
	return native.OwnsPolicy(apiVersion, kind), native.OwnsBinding(apiVersion, kind)
}

// NativePolicies compiles policies with the bindings that name them; types are those of known kinds (native.Options). There
// is a Program for each policy, in their order. The diagnostics of bindings are not among the Programs' own.
func NativePolicies(policies, bindings []Object, types managedfields.TypeConverter) ([]*policy.Program, diag.List) {
	return nativePolicies(policies, bindings, types, native.Compile)
}

// NativeReports compiles policies of both kinds as NativePolicies does, into Programs that tell what they say of objects that
// exist already.
func NativeReports(policies, bindings []Object, types managedfields.TypeConverter) ([]*policy.Program, diag.List) {
	return nativePolicies(policies, bindings, types, native.CompileReport)
}

func nativePolicies(policies, bindings []Object, types managedfields.TypeConverter, compile func(native.Source, native.Options) *policy.Program) ([]*policy.Program, diag.List) {
	var diags diag.List
	bound := map[string][]*native.Binding{} // by kind and name of the policies
	for _, o := range policies {
		bound[nativeKey(o)] = nil
	}
	for _, o := range bindings {
		b, found := native.CompileBinding(o.Value)
		if !found.HasErrors() {
			kind, _ := o.Value["kind"].(string)
			kind = strings.TrimSuffix(kind, "Binding")
			at := kind + "/" + b.PolicyName()
			if _, known := bound[at]; !known {
				found.Warnf("spec.policyName", "there is no %s %s among the policies", kind, b.PolicyName())
				found.Hint("the binding has no effect")
			}
			bound[at] = append(bound[at], b)
		}
		locate(found, o)
		diags.Add(found...)
	}
	programs := make([]*policy.Program, len(policies))
	for i, o := range policies {
		programs[i] = compile(native.Source{Policy: o.Value, Bindings: bound[nativeKey(o)]}, native.Options{Types: types})
		locate(programs[i].Diags, o)
	}
	return programs, diags
}

// nativeKey is the kind and the name of a policy.
func nativeKey(o Object) string {
	meta, _ := o.Value["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	kind, _ := o.Value["kind"].(string)
	return kind + "/" + name
}
