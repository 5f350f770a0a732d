package jmespath

import "strings"

func init() {
	register(Function{
		Name: "to_boolean", Args: one(String), Returns: []Type{Boolean},
		Doc: "Converts the words true and false, in any case, to a boolean.",
		Examples: []Example{
			{Expression: "to_boolean('True')", Result: `true`},
			{Expression: "to_boolean('yes')", Error: `JMESPath function 'to_boolean': lowercase argument must be 'true' or 'false' (provided: 'yes')`},
		},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			if err := env.step(len(s) / readPerStep); err != nil {
				return nil, err
			}
			switch strings.ToLower(s) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return nil, functionError("to_boolean", "lowercase argument must be 'true' or 'false' (provided: '%s')", s)
		},
	})
}
