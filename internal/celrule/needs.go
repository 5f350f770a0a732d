package celrule

import (
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Object returns the fields of the object that the expressions compiled so far read; nil if they do not use it.
func (c *Compiler) Object() *value.Fields { return c.env.Reads().Get(plugincel.ObjectVarName) }

// Needs returns the data that the expressions compiled so far need in addition to the object.
func (c *Compiler) Needs() policy.Needs {
	out := needs(c.env.Reads())
	out.Lookups = out.Lookups || c.env.Asks()
	out.Registries = c.env.Calls("imagedata") || c.env.Calls("getImageData") || c.env.Calls(env.LibraryImageVerify)
	return out
}

// ReadsContent reports whether the expressions compiled so far read the content (data, stringData) of one of the objects of the request: object
// or oldObject, also as a field of request and trigger. elsewhere: the variable itself is another object.
func (c *Compiler) ReadsContent(object string, elsewhere bool) bool {
	all := c.env.Reads()
	content := func(f *value.Fields) bool {
		return f != nil && (f.All() || f.Get("data") != nil || f.Get("stringData") != nil)
	}
	of := func(name string) bool {
		f := all.Get(name)
		return f != nil && (f.All() || content(f.Get(object)))
	}
	return all.All() || !elsewhere && content(all.Get(object)) || of(plugincel.RequestVarName) || of("trigger")
}

// ReadsNamespace reports whether an expression reads the namespace of the object.
func (c *Compiler) ReadsNamespace() bool {
	return c.env.Reads().Get(plugincel.NamespaceVarName) != nil
}

// Calls reports whether an expression calls a function of the library, such as http.
func (c *Compiler) Calls(library string) bool { return c.env.Calls(library) }

func needs(all *value.Fields) policy.Needs {
	reads := func(name string) bool { return all.Get(name) != nil }
	rights := reads(plugincel.AuthorizerVarName) || reads(plugincel.RequestResourceAuthorizerVarName)
	request := all.Get(plugincel.RequestVarName)
	field := func(name string) bool { return request != nil && (request.All() || request.Get(name) != nil) }
	return policy.Needs{
		User:      rights || field("userInfo"),
		OldObject: reads(plugincel.OldObjectVarName) || reads("trigger"),
		Operation: field("operation"),
		Lookups:   rights || reads(plugincel.NamespaceVarName),
	}
}
