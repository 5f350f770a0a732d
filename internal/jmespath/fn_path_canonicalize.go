package jmespath

import "path"

func init() {
	register(Function{
		Name: "path_canonicalize", Args: one(String), Returns: []Type{String},
		Doc: "Cleans a file path: removes double slashes and resolves . and .. elements.",
		Examples: []Example{
			{Expression: "path_canonicalize('///a/../b//c')", Result: `"/b/c"`},
			{Expression: "path_canonicalize('../a')", Result: `"../a"`},
		},
		call: func(env *Env, args []any) (any, error) { return env.text(path.Join(args[0].(string))) },
	})
}
