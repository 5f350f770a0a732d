package jmespath

// imageSteps is the cost of reading a short image reference and of writing it.
const imageSteps = 70

func init() {
	register(Function{
		Name: "image_normalize", Args: one(String), Returns: []Type{String},
		Doc: "Adds the missing parts to an image reference: the default registry and, if it has no digest, the default tag.",
		Examples: []Example{
			{Expression: "image_normalize('nginx')", Result: `"docker.io/nginx:latest"`},
			{Expression: "image_normalize('ghcr.io/x/y:1')", Result: `"ghcr.io/x/y:1"`},
			{Expression: "image_normalize('')", Error: `JMESPath function 'image_normalize': bad image: docker.io/, defaultRegistry: docker.io, enableDefaultRegistryMutation: true: invalid reference format`},
		},
		call: func(env *Env, args []any) (any, error) {
			if err := env.step(imageSteps); err != nil {
				return nil, err
			}
			out, err := normalizeImage(env, args[0].(string))
			if err != nil {
				return nil, functionError("image_normalize", "%w", err)
			}
			return out, nil
		},
	})
}
