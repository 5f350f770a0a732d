// Package jp has the commands `ephor jp query`, `parse` and `function`: they try JMESPath expressions in the dialect of policies.
//
//	root.AddCommand(jp.New())
//
// Package jmespath evaluates the expressions; no policy is involved.
//
// Floor 8: imports cli/terminal and the floors below.
package jp
