// Package scope holds the variables of expressions in the classic language: names with their values, from the request, from context entries
// and from the elements of loops.
//
//	s := scope.New(call)                                        // request, images, serviceAccountName, serviceAccountNamespace
//	s = s.WithLazy("cm", func(before *scope.Scope) (any, error) { … })
//	v, err := query.Search(s.QueryEnv(), s)                     // a Scope is the input of a query
//
//	var reads scope.Reads                                       // the variables that compiled expressions read
//	reads.Add(template)
//	rule.Needs, rule.Object = reads.Needs, reads.Object()
//
// It loads nothing by itself and knows no rule kind. Rules that are written in CEL do not use it.
//
// Floor 2: imports policy and leaves.
package scope
