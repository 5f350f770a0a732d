// Package jp implements the commands `ephor jp query`, `parse` and `function`, with which users try out JMESPath expressions in
// the dialect of policies.
//
//	root.AddCommand(jp.New())
//
// Package jmespath evaluates the expressions; no policy is involved.
//
// Floor 8: imports cli/terminal and the floors below.
package jp
