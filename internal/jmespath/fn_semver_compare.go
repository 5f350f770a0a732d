package jmespath

import "github.com/blang/semver/v4"

// maxVersion bounds the length of a version and of a range of versions.
const maxVersion = 4096

// versionSteps is the cost of a byte of a version.
const versionSteps = 2

func init() {
	register(Function{
		Name: "semver_compare", Args: one(String, String), Returns: []Type{Boolean},
		Doc: "Whether a version is in a range such as >=1.0.0 <2.0.0, 1.2.x or <1.0.0 || >2.0.0. A first argument that does not have the form x.y.z is taken as 0.0.0.",
		Examples: []Example{
			{Expression: "semver_compare('1.2.3', '>=1.0.0 <2.0.0')", Result: `true`},
			{Expression: "semver_compare('v1.2.3', '>=1.0.0')", Result: `false`},
			{Expression: "semver_compare('1.2.3', 'foo')", Error: `Could not get version from string: "foo"`},
		},
		call: func(env *Env, args []any) (any, error) {
			version, versions := args[0].(string), args[1].(string)
			if len(version) > maxVersion || len(versions) > maxVersion {
				return nil, functionError("semver_compare", "%w", ErrTooLarge)
			}
			if err := env.step(versionSteps * (8 + len(version) + len(versions))); err != nil {
				return nil, err
			}
			v, err := semver.Parse(version)
			if err != nil {
				v = semver.Version{}
			}
			in, err := semver.ParseRange(versions)
			if err != nil {
				return nil, err
			}
			return in(v), nil
		},
	})
}
