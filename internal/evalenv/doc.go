// Package evalenv holds what the evaluation of an expression may use besides its input, whatever its language is.
//
//	env := &evalenv.Env{Meter: meter, World: root.For(program.Reach())}
//	v, err := query.Search(env, data)
//
// It decides nothing. The engine makes an Env; the languages read it.
//
// Floor 0: imports budget, imageref, trace and world.
package evalenv
