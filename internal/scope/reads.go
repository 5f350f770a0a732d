package scope

import (
	"slices"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Expressions is implemented by compiled values that know which variables they read, such as *template.Template.
type Expressions interface {
	// Roots returns the top-level names that may be read; "*" if that is not known.
	Roots() []string
	// Expressions returns the compiled queries.
	Expressions() []*jmespath.Expr
	// Nested reports whether parts of the queries become known only during evaluation.
	Nested() bool
}

// Reads collects the free variables of compiled expressions, and the Needs that follow from them. The zero Reads is
// empty and ready to use.
type Reads struct {
	Needs policy.Needs
	names []string
	all   bool
	// request holds the fields of the variable request that are read; "*" if the whole request is read.
	request []string
	// fields are the fields of variables that are read. late: further reads become known only during evaluation.
	fields value.Fields
	late   bool
}

// Add adds the reads of e.
func (r *Reads) Add(e Expressions) {
	r.AddNames(e.Roots()...)
	r.late = r.late || e.Nested()
	for _, x := range e.Expressions() {
		r.AddExpr(x)
	}
}

// AddExpr adds the reads of the query x.
func (r *Reads) AddExpr(x *jmespath.Expr) {
	r.addPaths(x)
	x.Reads(&r.fields)
}

// AddOutline adds the reads of a query that holds data in some of its texts. The set of variables that it reads is certain only if
// no operator allows such data to be a part of the query (Conf.Expand); the Needs are those of x.
func (r *Reads) AddOutline(x *jmespath.Expr) {
	r.AddExpr(x)
	r.all = true
}

// AddLoop adds the reads of a loop over the result of list: the query, and body, in which the elements have names. A nil list means a
// mistake that was reported elsewhere.
func (r *Reads) AddLoop(list *jmespath.Expr, body Reads, names ...string) {
	if list != nil {
		r.addPaths(list)
		elements := list.Flow(&r.fields).Elements()
		for _, name := range names {
			elements.ReadFields(body.fields.Remove(name)) // outside the loop, the name has another meaning
		}
	}
	r.AddReads(body)
}

func (r *Reads) addPaths(x *jmespath.Expr) {
	r.AddNames(x.Roots()...)
	for _, p := range x.Paths() {
		r.addPath(p)
	}
}

// AddObject adds fields of the request's object that are read by other means than expressions.
func (r *Reads) AddObject(fields *value.Fields) {
	r.AddVariable("request").Member("object").Merge(fields)
}

// AddVariable returns the fields of the variable that are read by other means than expressions; the caller adds to it.
func (r *Reads) AddVariable(name string) *value.Fields { return r.fields.Member(name) }

// Object returns the fields of the request's object that are read, for policy.Rule.Object; nil if any field may be read.
func (r *Reads) Object() *value.Fields { return r.object(policy.ObjectReads) }

// ObjectContent returns those fields for policy.Rule.Content.
func (r *Reads) ObjectContent() *value.Fields { return r.object(policy.ContentReads) }

func (r *Reads) object(with func(*value.Fields) *value.Fields) *value.Fields {
	if r.all || r.late || r.fields.All() {
		return nil
	}
	request := r.fields.Get("request")
	if request == nil {
		return with(nil)
	}
	if request.All() {
		return nil
	}
	return with(request.Get("object"))
}

// Content reports whether fields with the content of an object are read: of request.object or request.oldObject, as part says.
func (r *Reads) Content(part string) bool {
	request := r.fields.Get("request")
	if request == nil {
		return false
	}
	object := request.Get(part)
	return request.All() || object != nil && (object.All() || object.Get("data") != nil || object.Get("stringData") != nil)
}

// AddNames adds top-level names; "*" stands for every name and every part of the request.
func (r *Reads) AddNames(names ...string) {
	for _, n := range names {
		if n == "*" {
			r.all = true
			r.Needs.Merge(policy.Needs{User: true, Roles: true, OldObject: true, Images: true, Operation: true})
			continue
		}
		if !slices.Contains(r.names, n) {
			r.names = append(r.names, n)
		}
		r.addName(n)
	}
}

// AddReads adds the reads of o.
func (r *Reads) AddReads(o Reads) {
	r.Needs.Merge(o.Needs)
	r.all, r.late = r.all || o.all, r.late || o.late
	r.fields.Merge(&o.fields)
	r.AddNames(o.names...)
	for _, f := range o.request {
		r.addRequest(f)
	}
}

// Has reports whether the variable may be read.
func (r *Reads) Has(name string) bool { return r.all || slices.Contains(r.names, name) }

// RequestFields returns the fields of the variable request that may be read; "*" stands for all of them.
func (r *Reads) RequestFields() []string { return r.request }

func (r *Reads) addRequest(field string) {
	if !slices.Contains(r.request, field) {
		r.request = append(r.request, field)
	}
}

// Made returns the variables from which a value is computed; nil if they are unknown, or if the world is read.
func (r *Reads) Made() *Made {
	if r.all || r.Needs.Lookups {
		return nil
	}
	return &Made{Of: slices.Clone(r.names)}
}

// Names returns the names that are read, except those in nested variables.
func (r *Reads) Names() []string { return r.names }

func (r *Reads) addName(name string) {
	switch name {
	case "serviceAccountName", "serviceAccountNamespace":
		r.Needs.User = true
	case "images", "image":
		r.Needs.Images = true
	}
}

func (r *Reads) addPath(path []string) {
	if len(path) == 0 || path[0] != "request" {
		return
	}
	if len(path) == 1 { // the whole request
		r.addRequest("*")
		r.Needs.Merge(policy.Needs{User: true, Roles: true, OldObject: true, Operation: true})
		return
	}
	r.addRequest(path[1])
	switch path[1] {
	case "userInfo":
		r.Needs.User = true
	case "roles", "clusterRoles":
		r.Needs.User = true
		r.Needs.Roles = true
	case "oldObject":
		r.Needs.OldObject = true
	case "operation":
		r.Needs.Operation = true
	}
}
